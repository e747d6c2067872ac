# muster_library(NAME SOURCES a.cpp ... [SEPARATE b.cpp ...] [PUBLIC targets] [PRIVATE targets]): one room as one static library.
# SEPARATE files are compiled alone, the SOURCES several at a time (MUSTER_UNITY). Every room has rendezvous/base below it.
function(muster_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;SEPARATE;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES} ${ARG_SEPARATE})
  set_source_files_properties(${ARG_SEPARATE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE muster_options ${ARG_PRIVATE})
  if(NOT name STREQUAL "muster_base")
    target_link_libraries(${name} PUBLIC muster_base)
  endif()
  target_include_directories(${name} INTERFACE "${PROJECT_SOURCE_DIR}/worker_sdk/include")
endfunction()

# muster_plugin(NAME SOURCES ... LIBS ...): a backend as a shared object of its own, libmuster_<NAME>.so, where the loader finds it.
function(muster_plugin name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(muster_${name} MODULE ${ARG_SOURCES} "${PROJECT_SOURCE_DIR}/worker_sdk/comm/plugin/plugin_release.cpp")
  target_link_libraries(muster_${name} PRIVATE muster_options ${ARG_LIBS})
  set(exported "${PROJECT_SOURCE_DIR}/worker_sdk/abi/muster.map")
  set_target_properties(muster_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/muster" LINK_DEPENDS "${exported}")
  target_link_options(muster_${name} PRIVATE "LINKER:--version-script=${exported}")
  if(MUSTER_INSTALL) # each component is whole by itself
    foreach(component sdk tools)
      install(TARGETS muster_${name} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/muster" COMPONENT ${component} OPTIONAL)
    endforeach()
    set_property(GLOBAL APPEND PROPERTY muster_installed muster_${name})
  endif()
endfunction()

# muster_executable(NAME [DYNAMIC] SOURCES ... LIBS ...): programs that link nothing but libc and libgcc_s dynamically unless LIBS do;
# DYNAMIC where one of LIBS brings libstdc++.so, of which a process shall have no second.
# They run on older glibcs than the one they are built with: libgcc_s is on every system, and a static one would need glibc 2.35
# (_dl_find_object); unused parts of libstdc++, which the linker is told to leave out, would need 2.36 (arc4random).
function(muster_executable name)
  cmake_parse_arguments(ARG "DYNAMIC" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE muster_options ${ARG_LIBS})
  if(NOT MUSTER_SANITIZE AND NOT ARG_DYNAMIC)
    # Symbols are bound once, before the forks that would each bind them, and cannot be bound to something else later.
    target_link_options(${name} PRIVATE -static-libstdc++ LINKER:--gc-sections LINKER:-z,now)
  endif()
endfunction()

add_custom_target(muster_tests ALL COMMENT "The test programs of this tree, and what they start")
add_custom_target(muster_unit_tests COMMENT "The programs of the tests labelled unit or sim that measure no time (scripts/test_distribution.sh)")

# muster_test_program(PROGRAM LABEL...): built with the tests of this tree, as a test with these labels wants it.
function(muster_test_program program)
  add_dependencies(muster_tests ${program})
  if("${ARGN}" MATCHES "unit|sim" AND NOT "${ARGN}" MATCHES "timed|soak")
    add_dependencies(muster_unit_tests ${program})
  endif()
endfunction()

# Which tests this tree has. Each test belongs to one kind of tree, so that scripts/test.sh runs it once: by default "asan", what is
# labelled e2e, interop, bench or timed "release", and what has threads to look at "tsan" as well. MUSTER_TESTS=all, the default of an
# unsanitized tree, has every test; MUSTER_TESTS=quick has the unit tests and whole jobs that are neither slow nor timed.
if(MUSTER_SANITIZE MATCHES "thread")
  set(MUSTER_TESTS tsan)
elseif(MUSTER_SANITIZE)
  set(MUSTER_TESTS asan)
else()
  set(MUSTER_TESTS all CACHE STRING "The tests of this tree: all, quick, or those of the kind of tree called release")
endif()

# muster_trees_of(RESULT "TREES" LABEL...): the kinds of tree that a test belongs to.
function(muster_trees_of result trees)
  if(NOT trees AND "${ARGN}" MATCHES "e2e|interop|bench|timed")
    set(trees release)
  elseif(NOT trees)
    set(trees asan)
  endif()
  set(${result} "${trees}" PARENT_SCOPE)
endfunction()

# muster_in_tree(RESULT "TREES" LABEL...): whether a test is one of this tree's. The program of a test is not built elsewhere.
function(muster_in_tree result trees)
  muster_trees_of(trees "${trees}" ${ARGN})
  set(wanted OFF)
  if(MUSTER_TESTS STREQUAL "all" OR MUSTER_TESTS IN_LIST trees)
    set(wanted ON)
  elseif(MUSTER_TESTS STREQUAL "quick" AND "${ARGN}" MATCHES "unit|sim|e2e" AND NOT "${ARGN}" MATCHES "slow|timed|bench|soak")
    set(wanted ON)
  endif()
  set(${result} ${wanted} PARENT_SCOPE)
endfunction()

# muster_test(NAME SOURCES ... LIBS ... LABELS unit|sim|integration|e2e|interop|bench|timed ... [PROGRAM program] [TREES asan|tsan|release ...]
#   [DEFINITIONS ...] [ENVIRONMENT ...] [DEPENDS target ...] [TIMEOUT s] [SERIAL]): the Catch2 tests of some files as one CTest test. Tests with the
# same PROGRAM are built as one, and each runs the cases of its own files, which Catch2 tags with their names. The default time-out is
# 120 s. Cases that skip say so by tests/support/skip.hpp.
function(muster_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT;PROGRAM" "SOURCES;LIBS;LABELS;TREES;DEFINITIONS;ENVIRONMENT;DEPENDS" ${ARGN})
  muster_in_tree(wanted "${ARG_TREES}" ${ARG_LABELS})
  if(NOT wanted)
    return()
  endif()
  if(NOT ARG_PROGRAM)
    set(ARG_PROGRAM ${name})
  endif()
  if(NOT TARGET ${ARG_PROGRAM})
    add_executable(${ARG_PROGRAM})
    set_target_properties(${ARG_PROGRAM} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests" UNITY_BUILD_BATCH_SIZE 16)
    target_link_libraries(${ARG_PROGRAM} PRIVATE muster_options muster_test_main)
    # Half of a test's compile time would go into the speed of code that runs once. What measures time keeps it.
    target_compile_options(${ARG_PROGRAM} PRIVATE "$<$<AND:$<CONFIG:RelWithDebInfo>,$<NOT:$<BOOL:$<TARGET_PROPERTY:MUSTER_TIMED>>>>:-Og>")
  endif()
  if("${ARG_LABELS}" MATCHES "timed|bench")
    set_target_properties(${ARG_PROGRAM} PROPERTIES MUSTER_TIMED ON)
  endif()
  muster_test_program(${ARG_PROGRAM} ${ARG_LABELS})
  get_target_property(known ${ARG_PROGRAM} SOURCES)
  set(tags)
  foreach(source IN LISTS ARG_SOURCES)
    get_filename_component(path "${source}" ABSOLUTE)
    get_filename_component(tag "${source}" NAME_WE)
    if(NOT path IN_LIST known)
      if("${known}" MATCHES "/${tag}\\.cpp(;|$)")
        message(FATAL_ERROR "${ARG_PROGRAM} has two files called ${tag}.cpp: tests are chosen by the names of their files")
      endif()
      target_sources(${ARG_PROGRAM} PRIVATE "${path}")
      list(APPEND known "${path}")
    endif()
    string(APPEND tags ",[#${tag}]~[.]")
  endforeach()
  string(SUBSTRING "${tags}" 1 -1 tags)
  target_link_libraries(${ARG_PROGRAM} PRIVATE ${ARG_LIBS})
  target_compile_definitions(${ARG_PROGRAM} PRIVATE ${ARG_DEFINITIONS})
  if(ARG_DEPENDS)
    add_dependencies(${ARG_PROGRAM} ${ARG_DEPENDS})
  endif()
  add_test(NAME ${name} COMMAND ${ARG_PROGRAM} --filenames-as-tags "${tags}")
  list(GET ARG_SOURCES 0 file)
  muster_test_properties(${name} FILE "${file}" TIMEOUT "${ARG_TIMEOUT}" LABELS ${ARG_LABELS} SERIAL ${ARG_SERIAL} ENVIRONMENT ${ARG_ENVIRONMENT})
endfunction()

# muster_test_helper(NAME SOURCES ... LIBS ... [DEPENDS target ...]): a program that tests start; it lies in tests/ of the build tree.
function(muster_test_helper name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;DEPENDS" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_link_libraries(${name} PRIVATE muster_options ${ARG_LIBS})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# muster_python_test(NAME SCRIPT file.py LABELS ... [ARGS ...] [TREES ...] [NEEDS target ...] [ENVIRONMENT ...] [TIMEOUT s] [SERIAL]): a standard-library
# Python program as one CTest test; it finds ours under MUSTER_BIN_DIR, helpers of tests/support on its path, and exits 77 to skip. NEEDS
# are the targets that it starts or loads besides the programs that are installed; those that are not built in this tree are left out, and
# so is a test of muster-train where that is not built.
function(muster_python_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT;SCRIPT" "ARGS;LABELS;TREES;NEEDS;ENVIRONMENT" ${ARGN})
  muster_in_tree(wanted "${ARG_TREES}" ${ARG_LABELS})
  if(NOT wanted OR (NOT MUSTER_BUILD_TRAINER AND "muster-train" IN_LIST ARG_NEEDS))
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY muster_tests_need muster ${ARG_NEEDS})
  add_test(NAME ${name} COMMAND "${MUSTER_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SCRIPT}" ${ARG_ARGS})
  muster_test_properties(${name} FILE "${ARG_SCRIPT}" TIMEOUT "${ARG_TIMEOUT}" LABELS ${ARG_LABELS} SERIAL ${ARG_SERIAL} ENVIRONMENT ${ARG_ENVIRONMENT}
    "MUSTER_BIN_DIR=${PROJECT_BINARY_DIR}/bin"
    "MUSTER_TORCH_PYTHON=${MUSTER_TORCH_PYTHON}" "PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/support" PYTHONDONTWRITEBYTECODE=1)
endfunction()

# At the end of the tests, when all targets are known.
function(muster_build_what_tests_need)
  get_property(targets GLOBAL PROPERTY muster_tests_need)
  list(REMOVE_DUPLICATES targets)
  foreach(target IN LISTS targets)
    if(TARGET ${target})
      add_dependencies(muster_tests ${target})
    endif()
  endforeach()
endfunction()

# What measures time runs alone; what then waits for clocks of seconds most of the time (label waits), beside its kind. What may take longest is started first: at the end nobody waits for it alone. The label room=FOLDER says in which folder of tests/ the test's FILE lies (tests/seconds.json).
function(muster_test_properties name)
  cmake_parse_arguments(ARG "" "TIMEOUT;SERIAL;FILE" "LABELS;ENVIRONMENT" ${ARGN})
  cmake_path(ABSOLUTE_PATH ARG_FILE BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE OUTPUT_VARIABLE room)
  cmake_path(GET room PARENT_PATH room)
  cmake_path(RELATIVE_PATH room BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(MUSTER_SANITIZE) # everything takes several times as long there
    math(EXPR ARG_TIMEOUT "3 * ${ARG_TIMEOUT}")
  endif()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${ARG_TIMEOUT} COST ${ARG_TIMEOUT} LABELS "${ARG_LABELS};room=${room}" SKIP_RETURN_CODE 77 ENVIRONMENT "${ARG_ENVIRONMENT}")
  if(ARG_SERIAL OR (ARG_LABELS MATCHES "timed|bench" AND NOT "waits" IN_LIST ARG_LABELS))
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
