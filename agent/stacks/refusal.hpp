// SPDX-License-Identifier: Apache-2.0
// Why the kernel lets nobody read a process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace muster::agent {

/// What /proc/PID/status says of who a process is. Format: proc(5).
struct ProcessIdentity {
  /// Real, effective and saved user id.
  uid_t uids[3] = {};
  gid_t gids[3] = {};
  std::uint64_t permitted_capabilities = 0;
  std::uint64_t effective_capabilities = 0;
};

/// Reads the text of /proc/PID/status; nullopt if it lacks any of it.
std::optional<ProcessIdentity> parse_identity(const std::string& status);

/// Returns why `self` was refused `target`, by the rules of ptrace(2): the user, Yama's scope (-1: no Yama),
/// more capabilities, or that the program has made itself unreadable.
std::string explain_refusal(const ProcessIdentity& self, const ProcessIdentity& target, int yama_scope);

/// Returns why process_vm_readv() failed with `error` for this process.
std::string read_refusal(pid_t pid, int error);

}  // namespace muster::agent
