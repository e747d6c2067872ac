// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/native_stack.hpp"

#include "catch.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

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

bool read_instruction(std::span<std::byte> bytes, std::uint64_t instruction, std::size_t size) {
  std::memcpy(bytes.data() + bytes.size() - size, &instruction, size);
  return true;
}

// A call, and a jump, to which nobody returns.
#if defined(__aarch64__)
constexpr std::uint64_t kCall = 0x94000001, kJump = 0x14000001;
constexpr std::size_t kInstructionBytes = 4;
#else
constexpr std::uint64_t kCall = 0xe8, kJump = 0xe9;
constexpr std::size_t kInstructionBytes = 5;
#endif

bool read_call(std::uint64_t /*address*/, std::span<std::byte> bytes) {
  return read_instruction(bytes, kCall, kInstructionBytes);
}

bool read_jump(std::uint64_t /*address*/, std::span<std::byte> bytes) {
  return read_instruction(bytes, kJump, kInstructionBytes);
}

}  // namespace

TEST_CASE("The innermost library is that of the first return address outside of the runtimes") {
  CHECK(innermost_library(std::array{std::uint64_t{7}, kLibc, kLibstdcxx, kVdso, kTorchData, kTorch, kPython},
                          kMappedCode, read_call) == "libtorch_cpu.so");
  CHECK(innermost_library(std::array{kLibc, kPython, kTorch}, kMappedCode, read_call) == "python3.11");
  CHECK(innermost_library(std::array{kLibc, kTorchData}, kMappedCode, read_call).empty());
  CHECK(innermost_library(std::array{kTorch}, "", read_call).empty());
  CHECK(innermost_library({}, kMappedCode, read_call).empty());
}

TEST_CASE("An allocator in the place of the runtime's is no library that sleeps") {
  const std::string maps = std::string(kMappedCode) +
                           "7f00a3000000-7f00a3021000 r-xp 00000000 fd:02 98768 /lib/libjemalloc.so.2\n";
  CHECK(innermost_library(std::array{kLibc, std::uint64_t{0x7f00a3000010}, kTorch}, maps, read_call) ==
        "libtorch_cpu.so");
}

TEST_CASE("A number that points into a library by chance is no return address") {
  constexpr std::uint64_t kHalf = 0x7f00'a000'0000;
  const auto read = [](std::uint64_t address, std::span<std::byte> bytes) {
    if (address + bytes.size() == kHalf) return false;
    return address + bytes.size() == kTorch ? read_jump(address, bytes) : read_call(address, bytes);
  };
  CHECK(innermost_library(std::array{kHalf, kTorch, kPython}, kMappedCode, read) == "python3.11");
  CHECK(innermost_library(std::array{kHalf, kTorch}, kMappedCode, read).empty());
}

#if defined(__aarch64__)
TEST_CASE("A return address follows bl and blr, signed or not") {
  for (const std::uint64_t call : {0x94000001U, 0x97ffffffU, 0xd63f0000U, 0xd63f03c0U})
    CHECK(innermost_library(std::array{kTorch | std::uint64_t{0x2a} << 56}, kMappedCode,
                            [call](std::uint64_t, std::span<std::byte> bytes) {
                              return read_instruction(bytes, call, 4);
                            }) == "libtorch_cpu.so");
  // b, br, ret, nop.
  for (const std::uint64_t other : {0x14000001U, 0xd61f0000U, 0xd65f03c0U, 0xd503201fU})
    CHECK(innermost_library(std::array{kTorch}, kMappedCode,
                            [other](std::uint64_t, std::span<std::byte> bytes) {
                              return read_instruction(bytes, other, 4);
                            })
              .empty());
}
#endif

#if defined(__x86_64__)
TEST_CASE("A return address follows one of the instructions that call") {
  const auto ends = [](std::vector<unsigned> end) {
    std::array<std::byte, kCallBytesMax> code{};
    std::transform(end.rbegin(), end.rend(), code.rbegin(), [](unsigned byte) { return std::byte(byte); });
    return ends_in_call(code);
  };
  // As "objdump -d" shows them: call 1234, *%rax, *%r12, *(%rdi), *(%rsp), *0x10(%rax), *0x8(%rsp,%rax,8),
  // *0x1234(%rip), *0x1234(%rbx), *0x1234(,%rax,8), *0x1234(%rsp).
  for (const std::vector<unsigned>& call :
       std::vector<std::vector<unsigned>>{{0xe8, 0x34, 0x12, 0, 0},
                                          {0xff, 0xd0},
                                          {0x41, 0xff, 0xd4},
                                          {0xff, 0x17},
                                          {0xff, 0x14, 0x24},
                                          {0xff, 0x50, 0x10},
                                          {0xff, 0x54, 0xc4, 0x08},
                                          {0xff, 0x15, 0x34, 0x12, 0, 0},
                                          {0xff, 0x93, 0x34, 0x12, 0, 0},
                                          {0xff, 0x14, 0xc5, 0x34, 0x12, 0, 0},
                                          {0xff, 0x94, 0x24, 0x34, 0x12, 0, 0}}) {
    CAPTURE(call);
    CHECK(ends(call));
  }
  // jmp 1234, jmp *%rax, a call whose operand lacks bytes, ret, nothing.
  for (const std::vector<unsigned>& other : std::vector<std::vector<unsigned>>{{0xe9, 0x34, 0x12, 0, 0},
                                                                               {0xff, 0xe0},
                                                                               {0xff, 0x50},
                                                                               {0xff, 0x15, 0, 0},
                                                                               {0xc3},
                                                                               {0, 0, 0, 0, 0, 0, 0}}) {
    CAPTURE(other);
    CHECK_FALSE(ends(other));
  }
}
#endif

TEST_CASE("The stack pointer is the last word but one of a thread that sleeps") {
  CHECK(stack_pointer("202 0x2fc60970 0x189 0x0 0x0 0x0 0xffffffff 0x7ffe2b319450 0x7f2da6646f16\n") ==
        0x7ffe2b319450);
  CHECK(stack_pointer("-1 0x7ffe2b319450 0x7f2da6646f16") == 0x7ffe2b319450);
  for (const char* const text : {"running\n", "", "202", "202 0x", "1 2 3", "0xzz 0x1"}) {
    CAPTURE(text);
    CHECK_FALSE(stack_pointer(text));
  }
}
