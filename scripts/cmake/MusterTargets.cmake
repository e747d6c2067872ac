# muster_library(NAME SOURCES a.cpp ... [PUBLIC targets] [PRIVATE targets]): one room as one static library.
function(muster_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE muster_options ${ARG_PRIVATE})
  target_include_directories(${name} INTERFACE "${PROJECT_SOURCE_DIR}/worker_sdk/include")
endfunction()

# muster_plugin(NAME SOURCES ... LIBS ...): a backend as a shared object of its own, libmuster_<NAME>.so, where the loader finds it.
function(muster_plugin name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(muster_${name} MODULE ${ARG_SOURCES})
  target_link_libraries(muster_${name} PRIVATE muster_options ${ARG_LIBS})
  set_target_properties(muster_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/muster")
  target_link_options(muster_${name} PRIVATE LINKER:--exclude-libs,ALL)
  install(TARGETS muster_${name} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/muster" COMPONENT sdk OPTIONAL)
endfunction()

# muster_executable(NAME SOURCES ... LIBS ...): installed programs; they link nothing but libc dynamically unless LIBS do.
function(muster_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE muster_options ${ARG_LIBS})
  if(NOT MUSTER_SANITIZE)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# muster_test(NAME SOURCES ... LIBS ... LABELS unit|sim|integration|e2e|interop|bench|timed ... [TIMEOUT s] [SERIAL]):
# a Catch2 program run as one CTest test. The default time-out is 120 s. Programs that skip say so by tests/support/skip.hpp.
function(muster_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_link_libraries(${name} PRIVATE muster_options ${ARG_LIBS} muster_test_main)
  add_test(NAME ${name} COMMAND ${name})
  muster_test_properties(${name} TIMEOUT "${ARG_TIMEOUT}" LABELS ${ARG_LABELS} SERIAL ${ARG_SERIAL})
endfunction()

# muster_python_test(NAME SCRIPT file.py LABELS ... [ARGS ...] [TIMEOUT s] [SERIAL]): a standard-library Python program as one
# CTest test; it finds ours under MUSTER_BIN_DIR, helpers of tests/support on its path, and exits 77 to skip.
function(muster_python_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT;SCRIPT" "ARGS;LABELS" ${ARGN})
  add_test(NAME ${name} COMMAND "${MUSTER_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SCRIPT}" ${ARG_ARGS})
  muster_test_properties(${name} TIMEOUT "${ARG_TIMEOUT}" LABELS ${ARG_LABELS} SERIAL ${ARG_SERIAL})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
    "MUSTER_BIN_DIR=${PROJECT_BINARY_DIR}/bin;MUSTER_TORCH_PYTHON=${MUSTER_TORCH_PYTHON};PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/support;PYTHONDONTWRITEBYTECODE=1")
endfunction()

# What needs both cores of a small machine, or measures time, runs alone.
function(muster_test_properties name)
  cmake_parse_arguments(ARG "" "TIMEOUT;SERIAL" "LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(MUSTER_SANITIZE) # everything takes several times as long there
    math(EXPR ARG_TIMEOUT "3 * ${ARG_TIMEOUT}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" SKIP_RETURN_CODE 77)
  if(ARG_SERIAL OR ARG_LABELS MATCHES "timed|e2e|interop|bench")
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()

# muster_fuzzer(NAME SOURCES ... LIBS ... [CORPUS dir] [MAX_LEN bytes]): a libFuzzer program (preset fuzz), run for
# MUSTER_FUZZ_SECONDS from the committed corpus; what it finds is kept in the build tree.
function(muster_fuzzer name)
  cmake_parse_arguments(ARG "" "CORPUS;MAX_LEN" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE muster_options ${ARG_LIBS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name})
  set(found "${PROJECT_BINARY_DIR}/corpus/${name}")
  file(MAKE_DIRECTORY "${found}")
  set(arguments -max_total_time=${MUSTER_FUZZ_SECONDS} -rss_limit_mb=2048 -timeout=10 -print_final_stats=1)
  if(ARG_MAX_LEN)
    list(APPEND arguments -max_len=${ARG_MAX_LEN})
  endif()
  list(APPEND arguments "${found}")
  if(ARG_CORPUS)
    list(APPEND arguments "${CMAKE_CURRENT_SOURCE_DIR}/${ARG_CORPUS}")
  endif()
  add_test(NAME ${name} COMMAND ${name} ${arguments})
  math(EXPR limit "${MUSTER_FUZZ_SECONDS} + 120")
  set_tests_properties(${name} PROPERTIES TIMEOUT ${limit} LABELS fuzz)
endfunction()
