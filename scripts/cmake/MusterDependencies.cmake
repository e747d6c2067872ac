# Found on the machine, never downloaded (scripts/install_deps.sh installs them). Debian 12 is the floor.
find_package(Threads REQUIRED)
if(NOT MUSTER_BUILD_TOOLS)
  return()
endif()
find_package(Boost 1.81 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(dnnl CONFIG REQUIRED)
find_package(OpenMP COMPONENTS CXX)
# Static, so that `muster` runs where it is copied to; shared where a distribution has no archive.
if(NOT DEFINED OPENSSL_USE_STATIC_LIBS)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()
find_package(OpenSSL 3.0 REQUIRED)
if(MUSTER_BUILD_TESTS)
  find_package(Catch2 REQUIRED)
endif()

# Asio and Boost.Process are used header-only.
add_library(muster_boost INTERFACE)
target_link_libraries(muster_boost INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(muster_boost INTERFACE BOOST_ASIO_NO_DEPRECATED)

# Its archive knows engines and providers that are loaded at run time; ours uses none, but it links dlopen.
add_library(muster_openssl INTERFACE)
target_link_libraries(muster_openssl INTERFACE OpenSSL::SSL OpenSSL::Crypto Threads::Threads ${CMAKE_DL_LIBS})
target_compile_definitions(muster_openssl INTERFACE OPENSSL_API_COMPAT=30000 OPENSSL_NO_DEPRECATED)
