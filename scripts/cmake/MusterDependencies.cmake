# Found on the machine, never downloaded (scripts/install_deps.sh installs them). Debian 12 is the floor.
find_package(Threads REQUIRED)
if(NOT MUSTER_BUILD_TOOLS)
  return()
endif()
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW) # newer CMakes have no FindBoost, and Boost brings a package of its own
endif()

# muster_need(NAME HINT [VERSION]): where it is missing or too old, the configuration ends with what to do about it.
macro(muster_need name hint)
  find_package(${name} ${ARGN})
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} ${ARGN} was not found (${hint}). scripts/install_deps.sh installs all that a build needs; "
      "where the package is elsewhere, name its folder with -D${name}_ROOT=DIR.")
  endif()
endmacro()

muster_need(Boost "Debian: libboost1.81-dev, or libboost-dev of a newer release" 1.81)
muster_need(nlohmann_json "Debian: nlohmann-json3-dev" 3.11)
muster_need(spdlog "Debian: libspdlog-dev" 1.10)
muster_need(CLI11 "Debian: libcli11-dev" 2.1)
if(MUSTER_BUILD_TRAINER)
  # Debian's oneDNN ends the configuration by itself where OpenCL is missing.
  find_package(OpenCL QUIET)
  if(NOT OpenCL_FOUND)
    message(NOTICE "OpenCL was not found (Debian: ocl-icd-opencl-dev opencl-c-headers opencl-clhpp-headers). If oneDNN asks for it below: "
      "only muster-train needs oneDNN, and -DMUSTER_BUILD_TRAINER=OFF builds without.")
  endif()
  muster_need(dnnl "oneDNN, Debian: libdnnl-dev; only muster-train needs it, and -DMUSTER_BUILD_TRAINER=OFF builds without")
  find_package(OpenMP COMPONENTS CXX)
endif()
# Static, so that `muster` runs where it is copied to; shared where a distribution has no archive.
if(NOT DEFINED OPENSSL_USE_STATIC_LIBS)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()
muster_need(OpenSSL "Debian: libssl-dev" 3.0)
# The archive of newer distributions compresses certificates and does not bring what it does that with.
include(CheckSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES OpenSSL::SSL OpenSSL::Crypto Threads::Threads ${CMAKE_DL_LIBS})
check_source_compiles(C "#include <openssl/ssl.h>\nint main(void) { return SSL_CTX_new(TLS_method()) == 0; }" MUSTER_OPENSSL_IS_WHOLE)
unset(CMAKE_REQUIRED_LIBRARIES)
set(openssl_needs)
if(NOT MUSTER_OPENSSL_IS_WHOLE)
  find_library(MUSTER_ZSTD NAMES libzstd.a zstd)
  find_library(MUSTER_ZLIB NAMES libz.a z)
  if(NOT MUSTER_ZSTD OR NOT MUSTER_ZLIB)
    message(FATAL_ERROR "${OPENSSL_CRYPTO_LIBRARY} cannot be linked alone, and zstd and zlib, which it may need, were not found (Debian: "
      "libzstd-dev zlib1g-dev; scripts/install_deps.sh installs them). -DOPENSSL_USE_STATIC_LIBS=OFF links the shared library.")
  endif()
  if(NOT "${MUSTER_ZSTD} ${MUSTER_ZLIB}" MATCHES "\\.a .*\\.a$")
    message(NOTICE "${MUSTER_ZSTD} and ${MUSTER_ZLIB} are not both archives: muster runs only on hosts that have them (--push does not bring them).")
  endif()
  set(openssl_needs ${MUSTER_ZSTD} ${MUSTER_ZLIB})
endif()
# hwloc is loaded at run time, and only when binding was asked for; of its headers types are taken.
set(MUSTER_HAVE_HWLOC OFF)
if(NOT MUSTER_WITH_HWLOC STREQUAL OFF)
  find_path(MUSTER_HWLOC_INCLUDE hwloc.h)
  if(MUSTER_HWLOC_INCLUDE)
    set(MUSTER_HAVE_HWLOC ON)
  endif()
endif()
if(MUSTER_HAVE_HWLOC)
  muster_part(HWLOC ON "${MUSTER_HWLOC_INCLUDE}")
else()
  muster_part(HWLOC OFF "hwloc.h was not found (Debian: libhwloc-dev)")
endif()
if(MUSTER_BUILD_TESTS)
  muster_need(Catch2 "Debian: catch2; -DMUSTER_BUILD_TESTS=OFF builds without")
endif()

# Asio and Boost.Process are used header-only.
add_library(muster_boost INTERFACE)
target_link_libraries(muster_boost INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(muster_boost INTERFACE BOOST_ASIO_NO_DEPRECATED)

# Its archive knows engines and providers that are loaded at run time; ours uses none, but it links dlopen.
add_library(muster_openssl INTERFACE)
target_link_libraries(muster_openssl INTERFACE OpenSSL::SSL OpenSSL::Crypto ${openssl_needs} Threads::Threads ${CMAKE_DL_LIBS})
target_compile_definitions(muster_openssl INTERFACE OPENSSL_API_COMPAT=30000 OPENSSL_NO_DEPRECATED)
