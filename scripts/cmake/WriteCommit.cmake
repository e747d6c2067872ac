# Writes OUTPUT, a header with the commit of SOURCE, at each build; it is touched only when the commit has changed, so that nothing is
# compiled again for the same one. COMMIT, where given, is taken as it is; otherwise GIT is asked, and without it the commit is "".
if(NOT COMMIT AND GIT AND EXISTS "${SOURCE}/.git")
  # A build may not wait for, or hold, the lock of somebody's index.
  set(ENV{GIT_OPTIONAL_LOCKS} 0)
  execute_process(COMMAND "${GIT}" -C "${SOURCE}" describe --always --dirty --abbrev=12 "--exclude=*"
    OUTPUT_VARIABLE COMMIT ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE TIMEOUT 20)
endif()
if(NOT COMMIT MATCHES "^[0-9A-Za-z._-]+$")
  set(COMMIT "")
endif()
set(text "#define MUSTER_COMMIT \"${COMMIT}\"\n")
set(old "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" old)
endif()
if(NOT text STREQUAL old)
  file(WRITE "${OUTPUT}" "${text}")
endif()
