# Component sdk: what a program is built against. cmake --install build/release --component sdk --prefix DIR [--strip]
include(CMakePackageConfigHelpers)
set(package "${CMAKE_CURRENT_BINARY_DIR}/package")
set(cmake_folder "${CMAKE_INSTALL_LIBDIR}/cmake/Muster")

set(libraries muster_sdk)
set(without)
if(TARGET muster_nn_sdk)
  list(APPEND libraries muster_nn_sdk)
else()
  set(without PATTERN nn.h EXCLUDE PATTERN nn*.hpp EXCLUDE)
endif()
install(TARGETS ${libraries} EXPORT MusterTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT sdk NAMELINK_COMPONENT sdk)
set_property(GLOBAL APPEND PROPERTY muster_installed ${libraries})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/worker_sdk/include/muster" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT sdk FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" ${without})
install(EXPORT MusterTargets NAMESPACE Muster:: DESTINATION "${cmake_folder}" COMPONENT sdk)

# Before 1.0 a new minor version may break what compiled.
write_basic_package_version_file("${package}/MusterConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES MusterConfig.cmake "${package}/MusterConfigVersion.cmake"
  DESTINATION "${cmake_folder}" COMPONENT sdk)

# The prefix is found from the place of the file, so the installed tree can be moved.
string(REGEX REPLACE "[^/]+" ".." to_prefix "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
configure_file(muster.pc.in "${package}/muster.pc" @ONLY)
install(FILES "${package}/muster.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT sdk)
