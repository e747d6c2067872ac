// SPDX-License-Identifier: Apache-2.0
// In which library a thread sleeps, from the first words of its stack. Pure, but for what reads the code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster::agent {

/// Returns the stack pointer of a thread that sleeps in a system call. `syscall`: the text of
/// /proc/PID/syscall (proc(5)). nullopt: it runs, or the text makes no sense.
std::optional<std::uint64_t> stack_pointer(std::string_view syscall);

/// The most bytes that an instruction takes which calls a function, on the machines that are known.
constexpr std::size_t kCallBytesMax = 7;

/// Whether the machine code right before an address ends in a call, so that the address is where that call
/// returns to: on x86-64 (opcodes E8 and FF /2 of Intel's manual, volume 2, CALL) and on aarch64 (BL and BLR
/// of the Arm manual); true on others. `code`: the kCallBytesMax bytes before the address.
bool ends_in_call(std::span<const std::byte, kCallBytesMax> code);

/// Reads so many bytes of the process's memory from an address on; false: they cannot be read.
using ReadCode = std::function<bool(std::uint64_t address, std::span<std::byte> bytes)>;

/// Returns the file name of the innermost library whose code called what sleeps: "libtorch_cpu.so". It is
/// that of the first word that is the return address of a call, besides the runtimes of C and C++, through
/// which everybody sleeps. That a word points into code is not enough: the upper half of an old pointer and
/// a small number in the lower half make one that does by chance. A return address may be left from an
/// earlier call, so that this is a sign and no proof. Empty: none is there. `words`: the stack from its
/// pointer on. `maps`: the text of /proc/PID/maps (proc(5)); lines that make no sense are left out. `read`:
/// is asked for the code before each word in question.
std::string innermost_library(std::span<const std::uint64_t> words, std::string_view maps,
                              const ReadCode& read);

}  // namespace muster::agent
