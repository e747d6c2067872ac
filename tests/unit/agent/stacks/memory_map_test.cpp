// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/memory_map.hpp"

#include "catch.hpp"

using namespace muster::agent;

namespace {

constexpr const char* kMaps =
    "00400000-00421000 r--p 00000000 08:01 11                                 /usr/bin/python3.11\n"
    "00421000-006b1000 r-xp 00021000 08:01 11                                 /usr/bin/python3.11\n"
    "01a00000-01b00000 rw-p 00000000 00:00 0                                  [heap]\n"
    "7f00a0000000-7f00a0021000 r--p 00000000 fd:02 98765                      /opt/my "
    "libs/libpython3.11.so.1.0\n"
    "7f00a0021000-7f00a0031000 r-xp 00021000 fd:02 98765                      /opt/my "
    "libs/libpython3.11.so.1.0\n"
    "7f00a1000000-7f00a1021000 r--p 00000000 fd:02 98766                      /opt/libpython3.so (deleted)\n"
    "7f00a2000000-7f00a2021000 r--p 00000000 fd:02 98767                      /usr/bin/python3.11-data\n"
    "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n";

}  // namespace

TEST_CASE("Libraries of Python come first, then the program itself, each once") {
  const auto files = python_candidates(kMaps, "/usr/bin/python3.11");
  REQUIRE(files.size() == 3);
  CHECK(files[0].path == "/opt/my libs/libpython3.11.so.1.0");
  CHECK(files[0].start == 0x7f00a0000000);
  CHECK(files[0].offset == 0);
  CHECK(files[0].inode == 98765);
  CHECK(files[0].range == "7f00a0000000-7f00a0021000");
  CHECK_FALSE(files[0].deleted);
  CHECK(files[1].path == "/opt/libpython3.so");
  CHECK(files[1].deleted);
  CHECK(files[2].path == "/usr/bin/python3.11");
  CHECK(files[2].start == 0x400000);
}

TEST_CASE("Lines that make no sense are left out, and not too many are taken") {
  for (const char* const line :
       {"", "\n", "x-y r--p 0 08:01 1 /libpython3.so\n", "1-2 r--p zz 08:01 1 /libpython3.so",
        "1-2 r--p 0 08:01 -1 /libpython3.so", "1-2", "/libpython3.so", "1-2 /libpython"})
    CHECK(python_candidates(line, "/bin/sh").empty());
  std::string many;
  for (int i = 0; i < 100; ++i) many += "1000-2000 r--p 0 08:01 1 /" + std::to_string(i) + "/libpython3.so\n";
  CHECK(python_candidates(many, "/bin/sh").size() == kCandidatesMax);
}
