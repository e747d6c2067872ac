// SPDX-License-Identifier: Apache-2.0
#include "agent/core/program_file.hpp"

#include "catch.hpp"

#include <cerrno>

namespace program_file_test {

using namespace muster::agent;

namespace {

using Read = std::pair<std::string, std::string>;

Read read(std::string_view head) {
  const Shebang line = shebang_of(head);
  return {line.interpreter, line.argument};
}

}  // namespace

TEST_CASE("The first line of a script is read as the kernel does") {
  CHECK(read("#!/bin/sh\necho") == Read{"/bin/sh", ""});
  CHECK(read("#! \t/bin/sh -e \t\n") == Read{"/bin/sh", "-e"});
  CHECK(read("#!/usr/bin/env -S python3 -u\n") == Read{"/usr/bin/env", "-S python3 -u"});
  CHECK(read("#!/bin/sh\r\n") == Read{"/bin/sh\r", ""});
  CHECK(read("#!/bin/sh") == Read{"/bin/sh", ""});
  CHECK(read(std::string_view("#!/bin/sh\0x\n", 12)) == Read{"/bin/sh", ""});
  for (const char* none : {"", "#", "#!", "#!\n", "#!  \n/bin/sh", " #!/bin/sh\n", "echo\n", "\n#!/bin/sh\n"})
    CHECK(read(none) == Read{"", ""});
  const std::string endless = "#!" + std::string(10'000, 'x');
  CHECK(shebang_of(endless).interpreter.size() == kProgramHeadBytes - 2);
}

TEST_CASE("A first line that cannot work is told with what to do") {
  CHECK(shebang_obstacle(shebang_of("#!/no/such -x\n"), true) ==
        "its interpreter '/no/such' does not exist; install it or mend the first line of the file");
  CHECK(shebang_obstacle(shebang_of("#!/bin/sh\r\n"), true) ==
        "its interpreter '/bin/sh\\r' does not exist: the file has CRLF line ends; run dos2unix on it");
  CHECK(shebang_obstacle(shebang_of("#!/usr/bin/env python3\r\n"), false) ==
        "its interpreter 'python3\\r' does not exist: the file has CRLF line ends; run dos2unix on it");
  CHECK(shebang_obstacle(shebang_of("#!/usr/bin/env -S python3 -u\r\n"), false)
            .empty());  // env parts words there
  CHECK(shebang_obstacle(shebang_of("#!/usr/bin/env python3\n"), false).empty());
  CHECK(shebang_obstacle(shebang_of("#!/bin/sh -e\r\n"), false).empty());
  CHECK(shebang_obstacle(shebang_of("#!/bin/sh\n"), false).empty());
  CHECK(shebang_obstacle(shebang_of("print(1)\n"), true).empty());
}

TEST_CASE("A file that the kernel does not execute is told with what to do") {
  CHECK(exec_obstacle(ENOEXEC, "echo hi\n") ==
        "it has no '#!' line: add '#!/bin/sh', or what else runs it, as its first line");
  CHECK(exec_obstacle(ENOEXEC, "") == "the file is empty");
  CHECK(exec_obstacle(ENOEXEC,
                      "\x7f"
                      "ELF\x02\x01\x01")
            .find("another kind of processor") != std::string::npos);
  CHECK(exec_obstacle(ENOEXEC, "#!\n") == "its '#!' line names no interpreter");
  CHECK(exec_obstacle(ENOEXEC, std::string_view("\xca\xfe\0\x01", 4)) == "it is no program for this system");
  CHECK(exec_obstacle(ENOENT, "#!/bin/sh\r\n").find("CRLF") != std::string::npos);
  CHECK(exec_obstacle(ENOENT,
                      "\x7f"
                      "ELF\x02")
            .find("dynamic loader") != std::string::npos);
  CHECK(exec_obstacle(ENOENT, "print(1)\n").empty());
  CHECK(exec_obstacle(EACCES, "echo hi\n").empty());
}

}  // namespace program_file_test
