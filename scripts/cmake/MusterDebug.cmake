# muster_install_debug_files(): component debug, what `cmake --install --strip` takes out of the programs and libraries of the other
# components. It goes where debuggers look for it by the build ID of a file, wherever that lies: lib/debug/.build-id below a prefix.
function(muster_install_debug_files)
  get_property(targets GLOBAL PROPERTY muster_installed)
  list(REMOVE_DUPLICATES targets)
  list(TRANSFORM targets REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
  # Not part of a plain `cmake --install`: it is larger than all the others.
  install(CODE "
set(files \"${files}\")
set(objcopy \"${CMAKE_OBJCOPY}\")
set(readelf \"${CMAKE_READELF}\")
include(\"${PROJECT_SOURCE_DIR}/scripts/cmake/InstallDebugFiles.cmake\")" COMPONENT debug EXCLUDE_FROM_ALL)
endfunction()
