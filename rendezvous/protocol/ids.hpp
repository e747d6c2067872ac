// SPDX-License-Identifier: Apache-2.0
// The few plain types that every part of the rendezvous speaks of.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::rendezvous {

/// A node's name, unique among the living nodes of a job.
using NodeName = std::string;

/// Rounds of a job count from 0; a number is never used twice.
using RoundNumber = int;

/// One control connection, counted from 1 by whoever accepts it; never used twice.
using SessionId = std::uint64_t;

/// A time on the monotonic clock of one process; the clocks of two nodes are never compared.
using TimePoint = std::chrono::steady_clock::time_point;
using Milliseconds = std::chrono::milliseconds;

/// The address at which a store listens.
struct Endpoint {
  std::string host;
  int port = 0;
  bool operator==(const Endpoint&) const = default;
};

/// Where the store of each round is to listen.
struct StoreSpec {
  /// The local address to listen on. Default: loopback, since one machine needs no other.
  std::string host = "127.0.0.1";
  /// The port to listen on. 0: any free port, a new one each round. Otherwise the same port in every round.
  int port = 0;
  /// Whether only connections are admitted whose peer socket belongs to our user (--store-admission
  /// user|off). Default: true.
  bool same_user_only = true;
};

/// When a job is started again after a failure (--restart-policy).
enum class RestartRule {
  backoff,   ///< after 0, 1, 2, 4 ... 30 s, but not after the exit codes 126 and 127
  progress,  ///< as backoff, but not after three rounds that failed for the same reason without progress
  torchrun,  ///< at once, whatever failed
};

/// The names of the rules on the command line, in the order of the enumerators.
inline constexpr std::array<const char*, 3> kRestartRuleNames{"backoff", "progress", "torchrun"};

inline const char* name_of(RestartRule rule) {
  return kRestartRuleNames.at(static_cast<std::size_t>(rule));
}

/// The rule with this name; nothing for an unknown name.
inline std::optional<RestartRule> restart_rule(std::string_view name) {
  for (std::size_t i = 0; i < kRestartRuleNames.size(); ++i)
    if (name == kRestartRuleNames[i]) return static_cast<RestartRule>(i);
  return std::nullopt;
}

/// The part of a job's command line that its coordinator must know. It is the same on every node.
struct JobLimits {
  int min_nodes = 1;
  int max_nodes = 1;
  /// The most restarts of the whole job for a failed or lost node.
  int max_restarts = 0;
  RestartRule restart_rule = RestartRule::backoff;
  /// The longest wait for min_nodes, and the wait for more nodes after that. The defaults are torchrun's.
  Milliseconds join_timeout = std::chrono::seconds(600);
  Milliseconds last_call_timeout = std::chrono::seconds(30);
  /// Whether no worker connects to the store itself and the nodes' agents carry the workers' requests.
  bool store_proxy = false;
  bool operator==(const JobLimits&) const = default;
};

}  // namespace muster::rendezvous
