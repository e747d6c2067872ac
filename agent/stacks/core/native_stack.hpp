// SPDX-License-Identifier: Apache-2.0
// In which library a thread sleeps, from the first words of its stack. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster::agent {

/// Returns the stack pointer of a thread that sleeps in a system call. `syscall`: the text of
/// /proc/PID/syscall (proc(5)). nullopt: it runs, or the text makes no sense.
std::optional<std::uint64_t> stack_pointer(std::string_view syscall);

/// Returns the file name of the innermost library whose code called what sleeps: "libtorch_cpu.so". It is
/// that of the first word that points into code, besides the runtimes of C and C++, through which everybody
/// sleeps. A word may be left from an earlier call, so that this is a sign and no proof. Empty: none is
/// there. `words`: the stack from its pointer on. `maps`: the text of /proc/PID/maps (proc(5)); lines that
/// make no sense are left out.
std::string innermost_library(std::span<const std::uint64_t> words, std::string_view maps);

}  // namespace muster::agent
