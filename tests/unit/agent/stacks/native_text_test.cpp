// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/native_text.hpp"

#include "catch.hpp"

#include <string>
#include <vector>

using namespace muster::agent;

namespace {

const NativeFrame kPollCall{"poll", "", 0, "libc.so.6", 0x1a2b};
const NativeFrame kMainCall{"main", "main.cpp", 12, "program", 0x400};

ProcessPicture picture_of(int pid, std::vector<NativeThread> threads, std::string error = "") {
  ProcessPicture picture{"program", "sleeping", {pid, "", {}, kNoPython}};
  picture.native = NativeStacks{std::move(threads), std::move(error), 210};
  return picture;
}

}  // namespace

TEST_CASE("Equal stacks of machine code of many ranks are shown once, main threads first") {
  NativeFrame elsewhere = kPollCall;
  elsewhere.offset = 0x1a30;  // the same function
  const ProcessPicture first =
      picture_of(10, {{11, "io", false, "", {kPollCall}}, {10, "program", true, "", {kPollCall, kMainCall}}});
  const ProcessPicture second = picture_of(20, {{20, "program", false, "", {elsewhere, kMainCall}}});
  CHECK(native_lines({{0, &first}, {3, &second}}, 64) ==
        std::vector<std::string>{
            "--native stops each thread while its registers and stack are copied: 0.21 ms at most this time",
            "ranks 0, 3, main thread (program), machine code:", "  #0  poll (libc.so.6+0x1a2b)",
            "  #1  main (program+0x400) at main.cpp:12", "  ...",
            "rank 0, another thread (io), machine code:", "  #0  poll (libc.so.6+0x1a2b)"});
  CHECK(native_lines({{0, &first}, {3, &second}}, 1).back() == "and 1 more stacks of machine code");
}

TEST_CASE("Why there is no stack of machine code is said, and nothing where nobody asked") {
  const ProcessPicture none = picture_of(10, {}, "it belongs to \x1b[1m");
  const ProcessPicture thread = picture_of(20, {{20, "a", false, "it has ended", {}}});
  const std::vector<std::string> lines = native_lines({{0, &none}, {1, &thread}}, 64);
  REQUIRE(lines.size() == 3);
  CHECK(lines[1] == "rank 0: no stacks of the machine code of program: it belongs to \\x1b[1m");
  CHECK(lines[2] == "rank 1: no stack of the thread a of program: it has ended");
  const ProcessPicture python{"program", "sleeping", {}};
  CHECK(native_lines({{0, &python}}, 64).empty());
}

TEST_CASE("A call without a symbol, or without a file, is shown by its address") {
  CHECK(describe({"", "", 0, "libx.so", 16}, 12) == "#12 ? (libx.so+0x10)");
  CHECK(describe({"", "", 0, "", 4096}, 3) == "#3  ? (0x1000)");
  CHECK(describe({"f\x1b", "", 0, "", 1}, 0) == "#0  f\\x1b (0x1)");
}

TEST_CASE("What does not fit goes from the outside, then by whole threads") {
  NativeStacks stacks;
  stacks.threads = {{1, "a", false, "", {kPollCall, kMainCall, kMainCall}}, {2, "b", false, "", {kPollCall}}};
  CHECK(within(stacks, 1 << 20).threads.size() == 2);
  CHECK_FALSE(within(stacks, 1 << 20).threads[0].truncated);
  const NativeStacks some = within(stacks, 220);
  REQUIRE(some.threads.size() == 1);
  CHECK(some.threads[0].truncated);
  CHECK(some.threads[0].frames == std::vector<NativeFrame>{kPollCall});
  CHECK(some.error == "the stacks of 1 more threads are left out");
  CHECK(within(stacks, 0).threads.empty());
}
