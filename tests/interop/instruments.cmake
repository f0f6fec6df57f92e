# tapwire_interop_instruments(TARGET): adds what programs of tests against the kernel share, and
# tells them where the `tapwire` program is, which some of them run.
set(_tapwire_interop "${CMAKE_CURRENT_LIST_DIR}")
function(tapwire_interop_instruments target)
  foreach(name exchange kernel_features kernel_side kernel_tcp lab program super_packet
               transfer verdict)
    target_sources(${target} PRIVATE "${_tapwire_interop}/${name}.cc")
  endforeach()
  target_compile_definitions(${target} PRIVATE TAPWIRE_PROGRAM="$<TARGET_FILE:tapwire>")
  add_dependencies(${target} tapwire)
endfunction()
