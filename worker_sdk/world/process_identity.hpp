// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace muster {

/// One process among all that ever ran: a pid alone is used again.
struct ProcessIdentity {
  std::string host;
  std::string boot;                 ///< id of the kernel's start
  std::uint64_t pid_namespace = 0;  ///< pids of another container mean other processes
  pid_t pid = 0;
  std::uint64_t started = 0;  ///< clock ticks after the kernel's start

  static ProcessIdentity here();

  /// One line, and back; nullopt for other text.
  std::string to_text() const;
  static std::optional<ProcessIdentity> from_text(const std::string& text);

  /// The process as text: "process 123 on host n07".
  std::string describe() const;

  bool operator==(const ProcessIdentity&) const = default;
};

enum class Liveness { alive, dead, unknown };

/// Whether it still runs; unknown on another host or in another pid namespace.
Liveness liveness_of(const ProcessIdentity& process);

/// Whether `process` ran beside `self`, under the same kernel and in the same pid namespace, and has ended.
bool has_died_near(const ProcessIdentity& process, const ProcessIdentity& self);

}  // namespace muster
