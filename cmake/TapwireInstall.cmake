# What `cmake --install` puts where: static libraries, their headers below include/tapwire, a CMake
# package and pkg-config files, and the program. Two components: core (everything without libuv)
# and uv (the runner on a libuv loop).
include(CMakePackageConfigHelpers)

set(core_libraries netdev_base netdev_packet netdev_wire netdev drv_tap stack_core stack_udp stack_tcp stack_sockets)
set(uv_libraries stack_uv)
set(TAPWIRE_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/tapwire")

# `tapwire::tapwire` is all of core, for programs that do not care about the parts.
add_library(tapwire_all INTERFACE)
target_link_libraries(tapwire_all INTERFACE stack_sockets drv_tap)
set_target_properties(tapwire_all PROPERTIES EXPORT_NAME tapwire)
add_library(tapwire::tapwire ALIAS tapwire_all)

foreach(library IN LISTS core_libraries uv_libraries)
  get_target_property(type ${library} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    # libnetdev.a would be anybody's name in a common folder.
    set_target_properties(${library} PROPERTIES OUTPUT_NAME tapwire_${library})
  endif()
endforeach()

install(TARGETS ${core_libraries} tapwire_all EXPORT tapwire-core-targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(TARGETS ${uv_libraries} EXPORT tapwire-uv-targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(component core uv)
  install(EXPORT tapwire-${component}-targets NAMESPACE tapwire:: DESTINATION "${TAPWIRE_CMAKE_DIR}")
endforeach()

# Who links the installed libraries does not want to wait for an optimization he did not ask for.
if(tapwire_lto_options)
  foreach(library IN LISTS core_libraries uv_libraries)
    install(CODE "execute_process(COMMAND \"${CMAKE_OBJCOPY}\" --wildcard --remove-section=.gnu.lto_* --remove-section=.gnu.debuglto_*
      \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libtapwire_${library}.a\" COMMAND_ERROR_IS_FATAL ANY)")
  endforeach()
endif()

foreach(folder netdev stack drivers/tap)
  get_filename_component(parent "${folder}" DIRECTORY)
  install(DIRECTORY "${tapwire_SOURCE_DIR}/${folder}"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tapwire/${parent}"
    FILES_MATCHING PATTERN "*.h")
endforeach()

configure_package_config_file("${tapwire_SOURCE_DIR}/cmake/tapwire-config.cmake.in"
  "${CMAKE_CURRENT_BINARY_DIR}/tapwire-config.cmake" INSTALL_DESTINATION "${TAPWIRE_CMAKE_DIR}")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/tapwire-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/tapwire-config.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/tapwire-config-version.cmake" DESTINATION "${TAPWIRE_CMAKE_DIR}")

# Static libraries name each other in the order in which the linker needs them: users first.
set(TAPWIRE_PC_LIBS)
foreach(library stack_sockets stack_udp stack_tcp stack_core drv_tap netdev netdev_packet netdev_wire netdev_base)
  get_target_property(type ${library} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    string(APPEND TAPWIRE_PC_LIBS " -ltapwire_${library}")
  endif()
endforeach()
# The prefix is found from the place of the file itself, so that the tree can be moved.
string(REGEX REPLACE "[^/]+" ".." up "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
set(TAPWIRE_PC_PREFIX "\${pcfiledir}/${up}")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(TAPWIRE_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  set(TAPWIRE_PC_LIBDIR "${CMAKE_INSTALL_FULL_LIBDIR}")
else()
  set(TAPWIRE_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(TAPWIRE_PC_INCLUDEDIR "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
  set(TAPWIRE_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
foreach(file tapwire tapwire-uv)
  configure_file("${tapwire_SOURCE_DIR}/cmake/${file}.pc.in" "${CMAKE_CURRENT_BINARY_DIR}/${file}.pc" @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${file}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

install(FILES "${tapwire_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
if(TARGET tapwire)
  install(TARGETS tapwire RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
