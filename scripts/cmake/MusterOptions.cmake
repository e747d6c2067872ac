# What every target of ours is compiled with: one INTERFACE target, linked PRIVATE, never seen by a consumer.
include(GNUInstallDirs)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# For rooms whose code is mapped by processes that stay beside the workers and hardly runs.
set(MUSTER_SMALL_CODE $<$<CONFIG:RelWithDebInfo,Release>:-Os>)

# Several files of a room are compiled as one: most of what the compiler does for a file is to read the headers that its neighbours
# read, too. A file with options of its own, or one that is linked where its neighbours are not, is compiled alone (SEPARATE in muster_library).
option(MUSTER_UNITY "Compile several files of a room as one; off, a change compiles one file again, and all of them take several times as long" ON)
set(CMAKE_UNITY_BUILD ${MUSTER_UNITY})
# Nearly every room is one unit, then; the largest takes a compiler 17 s and 0.9 GB.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)

find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${MUSTER_CCACHE}")
endif()

add_library(muster_options INTERFACE)
target_compile_features(muster_options INTERFACE cxx_std_20)
target_include_directories(muster_options INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/worker_sdk/include")
target_compile_options(muster_options INTERFACE -fvisibility=hidden
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual -Wcast-align -Wformat=2 -Wextra-semi
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wduplicated-branches -Wlogical-op -Wuseless-cast
    -Wsuggest-override -Wmissing-declarations>)
if(MUSTER_UNITY)
  # To the compiler the files that are compiled together are headers, whose unnamed namespaces it warns of.
  target_compile_options(muster_options INTERFACE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>)
  # To clang the same alias in the unnamed namespaces of two of them hides itself.
  target_compile_options(muster_options INTERFACE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:Clang>>:-Wno-shadow>)
endif()
if(MUSTER_WARNINGS_AS_ERRORS)
  target_compile_options(muster_options INTERFACE -Werror)
endif()
# GCC collects garbage from 128 MiB on, for a fourteenth of its time; from 512 MiB on, a unit takes a fifth of a GB more. Memory is in MiB.
cmake_host_system_information(RESULT muster_host_memory QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT muster_host_processors QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR muster_compiler_memory "${muster_host_memory} / ${muster_host_processors}")
if(muster_compiler_memory GREATER 2000)
  target_compile_options(muster_options INTERFACE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:--param=ggc-min-heapsize=524288>)
endif()
# By which debuggers find what was stripped (component debug); many compilers ask the linker for it anyway.
include(CheckLinkerFlag)
check_linker_flag(CXX LINKER:--build-id MUSTER_HAVE_BUILD_IDS)
if(MUSTER_HAVE_BUILD_IDS)
  target_link_options(muster_options INTERFACE LINKER:--build-id)
endif()
if(MUSTER_SANITIZE)
  # What the sanitizers add is much, and lld links it in a fraction of the time.
  check_linker_flag(CXX -fuse-ld=lld MUSTER_HAVE_LLD)
  if(MUSTER_HAVE_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
  target_compile_options(muster_options INTERFACE -fsanitize=${MUSTER_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(muster_options INTERFACE -fsanitize=${MUSTER_SANITIZE})
  target_compile_definitions(muster_options INTERFACE MUSTER_SANITIZED=1)
  if(MUSTER_SANITIZE MATCHES "thread")
    target_compile_options(muster_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
    target_compile_definitions(muster_options INTERFACE MUSTER_SANITIZED_THREADS=1)
  endif()
  # Up to 16, clang cannot compile coroutines with the check of function types.
  target_compile_options(muster_options INTERFACE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
endif()

# The same for programs in C.
add_library(muster_c_options INTERFACE)
target_compile_features(muster_c_options INTERFACE c_std_99)
target_compile_options(muster_c_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes)
if(MUSTER_WARNINGS_AS_ERRORS)
  target_compile_options(muster_c_options INTERFACE -Werror)
endif()
if(MUSTER_SANITIZE)
  target_compile_options(muster_c_options INTERFACE -fsanitize=${MUSTER_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  # clang links the checks of C++ to programs in C++ only, and libmuster.so has them.
  target_link_options(muster_c_options INTERFACE -fsanitize=${MUSTER_SANITIZE} $<$<C_COMPILER_ID:Clang>:-fsanitize-link-c++-runtime>)
  target_link_libraries(muster_c_options INTERFACE $<$<C_COMPILER_ID:Clang>:stdc++>)
endif()
