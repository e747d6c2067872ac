// SPDX-License-Identifier: Apache-2.0
// Thin wrappers of system calls that every layer makes.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

/// Throws std::system_error: "<what>: <what the error means>".
[[noreturn]] void throw_errno(const std::string& what, int error = errno);

/// Opens a descriptor that becomes readable when the process `pid` ends. Empty, with errno, if there is no
/// such process.
UniqueFd open_pidfd(pid_t pid);

/// The text for an error of open_pidfd() when the process exists.
inline constexpr const char* kNoPidfd = "pidfd_open (Linux 5.4 or newer is needed)";

/// This host's name as the kernel has it; "localhost" if it has none.
std::string host_name();

/// Writes all of `bytes` to a blocking descriptor. False, with errno, if the descriptor takes no more.
bool write_all(int fd, std::string_view bytes);

/// The bytes from the position of a descriptor up to its end, at most `limit`. nullopt, with errno, if they
/// cannot be read.
std::optional<std::string> read_to_end(int fd, std::size_t limit = std::string::npos);

/// The first `limit` bytes of a file, which is opened with `flags` besides O_RDONLY. nullopt, with errno, if
/// it cannot be read.
std::optional<std::string> read_file(const std::string& path, std::size_t limit = std::string::npos,
                                     int flags = 0);

/// Enough bytes for /proc/PID/status: a user in very many groups has a long line of them before others.
inline constexpr std::size_t kStatusTextMost = std::size_t{1} << 20;

}  // namespace muster
