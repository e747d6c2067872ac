// SPDX-License-Identifier: Apache-2.0
// Identifies a process, so that its end can be noticed later.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace muster {

/// The identity of one process among all that ever ran, because a pid alone is used again.
struct ProcessIdentity {
  std::string host;
  std::string boot;                 ///< id of the kernel's start
  std::uint64_t pid_namespace = 0;  ///< pids of another namespace mean other processes
  pid_t pid = 0;
  std::uint64_t started = 0;  ///< start time in clock ticks after the kernel's start

  static ProcessIdentity here();

  /// to_text() writes the identity in one line, and from_text() reads it; nullopt for other text.
  std::string to_text() const;
  static std::optional<ProcessIdentity> from_text(const std::string& text);

  /// The process as text: "process 123 on host n07".
  std::string describe() const;

  bool operator==(const ProcessIdentity&) const = default;
};

enum class Liveness { alive, dead, unknown };

/// Whether the process still runs; unknown on another host or in another pid namespace.
Liveness liveness_of(const ProcessIdentity& process);

/// Whether `process` ran beside `self`, under the same kernel and in the same pid namespace, and has ended.
bool has_died_near(const ProcessIdentity& process, const ProcessIdentity& self);

}  // namespace muster
