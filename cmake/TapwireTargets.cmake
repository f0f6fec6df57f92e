# Helpers that give every target of the tree the same language level, warnings and sanitizers.

add_library(tapwire_flags INTERFACE)
target_compile_features(tapwire_flags INTERFACE cxx_std_20)
target_compile_options(tapwire_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  $<$<BOOL:${TAPWIRE_WERROR}>:-Werror>)
if(TAPWIRE_SANITIZE)
  string(REPLACE ";" "," _tapwire_sanitize "${TAPWIRE_SANITIZE}")
  target_compile_options(tapwire_flags INTERFACE
    -fsanitize=${_tapwire_sanitize} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tapwire_flags INTERFACE -fsanitize=${_tapwire_sanitize})
  if(NOT TAPWIRE_SANITIZE MATCHES "thread")
    # A quarter less of start-up, which is most of what a small test takes.
    target_link_options(tapwire_flags INTERFACE
      $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  endif()
endif()
# Inlining across the files of the libraries makes the stack a third faster. They stay usable without
# it (fat objects); the programs that are worth the time to link so have the property TAPWIRE_LTO.
if(TAPWIRE_LTO AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(tapwire_lto_options -flto=auto -ffat-lto-objects)
  target_link_options(tapwire_flags INTERFACE
    $<IF:$<BOOL:$<TARGET_PROPERTY:TAPWIRE_LTO>>,-flto=auto,-fno-lto>)
endif()
if(TAPWIRE_BUILD_FUZZ AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(tapwire_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# tapwire_library(NAME SOURCES_FROM dir... DEPS target...)
# A static library of all *.cc in the folders, built without exceptions and with RTTI (users and
# mocks derive from our interfaces). Folders without sources give an interface library.
function(tapwire_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES_FROM;DEPS" ${ARGN})
  set(sources)
  foreach(dir IN LISTS ARG_SOURCES_FROM)
    file(GLOB found CONFIGURE_DEPENDS "${dir}/*.cc")
    list(APPEND sources ${found})
  endforeach()
  list(SORT sources)
  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC
      $<BUILD_INTERFACE:${tapwire_SOURCE_DIR}>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tapwire>)
    target_compile_features(${name} PUBLIC cxx_std_20)
    # Position-independent for the plug-in; nobody replaces our functions, so calls may be inlined.
    target_compile_options(${name} PRIVATE -fno-exceptions -fno-semantic-interposition ${tapwire_lto_options})
    target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE $<BUILD_INTERFACE:tapwire_flags>)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE
      $<BUILD_INTERFACE:${tapwire_SOURCE_DIR}>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/tapwire>)
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
  endif()
  add_library(tapwire::${name} ALIAS ${name})
  set_property(GLOBAL APPEND PROPERTY TAPWIRE_LIBRARIES ${name})
endfunction()
