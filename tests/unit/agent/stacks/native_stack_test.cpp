// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/native_stack.hpp"

#include "catch.hpp"

#include <array>

using namespace muster::agent;

namespace {

constexpr const char* kMappedCode =
    "00400000-00421000 r--p 00000000 08:01 11                                 /usr/bin/python3.11\n"
    "00421000-006b1000 r-xp 00021000 08:01 11                                 /usr/bin/python3.11\n"
    "01a00000-01b00000 rw-p 00000000 00:00 0                                  [heap]\n"
    "7f00a0000000-7f00a0100000 r-xp 00000000 fd:02 98765                      /my libs/libtorch_cpu.so\n"
    "7f00a0100000-7f00a0200000 rw-p 00000000 fd:02 98765                      /my libs/libtorch_cpu.so\n"
    "7f00a1000000-7f00a1021000 r-xp 00000000 fd:02 98766                      /lib/libc.so.6\n"
    "7f00a2000000-7f00a2021000 r-xp 00000000 fd:02 98767                      /lib/libstdc++.so.6.0.30\n"
    "7ffc00000000-7ffc00021000 r-xp 00000000 00:00 0                          [vdso]\n"
    "nonsense\nzz-1 r-xp 0 0 0 /libtorch.so\n";

constexpr std::uint64_t kPython = 0x421010;
constexpr std::uint64_t kTorch = 0x7f00a0000010;
constexpr std::uint64_t kTorchData = 0x7f00a0100010;
constexpr std::uint64_t kLibc = 0x7f00a1000010;
constexpr std::uint64_t kLibstdcxx = 0x7f00a2000010;
constexpr std::uint64_t kVdso = 0x7ffc00000010;

}  // namespace

TEST_CASE("The innermost library is that of the first return address outside of the runtimes") {
  CHECK(innermost_library(std::array{std::uint64_t{7}, kLibc, kLibstdcxx, kVdso, kTorchData, kTorch, kPython},
                          kMappedCode) == "libtorch_cpu.so");
  CHECK(innermost_library(std::array{kLibc, kPython, kTorch}, kMappedCode) == "python3.11");
  CHECK(innermost_library(std::array{kLibc, kTorchData}, kMappedCode).empty());
  CHECK(innermost_library(std::array{kTorch}, "").empty());
  CHECK(innermost_library({}, kMappedCode).empty());
}

TEST_CASE("The stack pointer is the last word but one of a thread that sleeps") {
  CHECK(stack_pointer("202 0x2fc60970 0x189 0x0 0x0 0x0 0xffffffff 0x7ffe2b319450 0x7f2da6646f16\n") ==
        0x7ffe2b319450);
  CHECK(stack_pointer("-1 0x7ffe2b319450 0x7f2da6646f16") == 0x7ffe2b319450);
  for (const char* const text : {"running\n", "", "202", "202 0x", "1 2 3", "0xzz 0x1"}) {
    CAPTURE(text);
    CHECK_FALSE(stack_pointer(text));
  }
}
