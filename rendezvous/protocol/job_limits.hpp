// SPDX-License-Identifier: Apache-2.0
// What a job's command line says of its rounds: agents, coordinator, rounds and restart policy all hold this.
#pragma once

#include "rendezvous/protocol/ids.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace muster::rendezvous {

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

/// What is done when a job is hung (--on-hang), beside saying so. What only may be hung is said, and no more.
enum class HangAction {
  report,   ///< nothing
  restart,  ///< the round ends as by a failed worker, and so another one follows if a restart is left
  abort,    ///< the job ends
};

/// The names of the actions on the command line, in the order of the enumerators.
inline constexpr std::array<const char*, 3> kHangActionNames{"report", "restart", "abort"};

inline const char* name_of(HangAction action) {
  return kHangActionNames.at(static_cast<std::size_t>(action));
}

/// The action with this name; nothing for an unknown name.
inline std::optional<HangAction> hang_action(std::string_view name) {
  for (std::size_t i = 0; i < kHangActionNames.size(); ++i)
    if (name == kHangActionNames[i]) return static_cast<HangAction>(i);
  return std::nullopt;
}

struct JobLimits {
  /// The nodes that a round needs, and the most that it may have (--nnodes). A job is elastic if they differ.
  int min_nodes = 1;
  int max_nodes = 1;
  /// The most restarts of the whole job for failures of workers and losses of nodes (--max-restarts).
  int max_restarts = 0;
  /// Which failures another round follows, and how soon.
  RestartRule restart_rule = RestartRule::backoff;
  /// The longest wait of a round for min_nodes (--rdzv-conf join_timeout), and the wait for more nodes after
  /// that (last_call_timeout).
  Milliseconds join_timeout = kJoinTimeout;
  Milliseconds last_call_timeout = kLastCallTimeout;
  /// Whether no worker connects to the store itself and the nodes' agents carry the workers' requests
  /// (--store-proxy).
  bool store_proxy = false;
  /// The time for which no rank may move before the job counts as hung (--hang-timeout); 0: never. That of
  /// the node that runs the coordinator holds.
  Milliseconds hang_timeout = kHangTimeout;
  /// What is done then. Again that of the node that runs the coordinator.
  HangAction on_hang = HangAction::report;

  bool elastic() const { return min_nodes < max_nodes; }

  bool operator==(const JobLimits&) const = default;
};

/// Values that must be the same on every node, by the names under which people know them.
using Settings = std::map<std::string, std::string>;

/// The flags that must be the same on every node of a job. The three times are not among them: those of the
/// node that runs the coordinator hold, and the others' say how patient their own agents are.
Settings shared_flags(const JobLimits& limits);

/// The first difference between the settings of two nodes, for people: "node b has --nnodes=3, node a has
/// --nnodes=2; give the same on every node". Empty: there is none.
std::string difference(const std::string& title, const Settings& settings, const std::string& other_title,
                       const Settings& other);

}  // namespace muster::rendezvous
