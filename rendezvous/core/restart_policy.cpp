// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/restart_policy.hpp"

#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <algorithm>
#include <string_view>

namespace muster::rendezvous {
namespace {

std::string seconds_text(Milliseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

/// The line without its numbers: addresses, process numbers, ranks and times differ from round to round
/// though the reason is the same.
std::string without_numbers(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size();) {
    const bool hexadecimal = line.substr(i, 2) == "0x";
    const char* digits = hexadecimal ? "0123456789abcdefABCDEF" : "0123456789";
    const std::size_t end = std::min(line.size(), line.find_first_not_of(digits, hexadecimal ? i + 2 : i));
    if (end == i) {
      text += line[i++];
    } else {
      text += '#';
      i = end;
    }
  }
  return text;
}

/// The text of a failure's reason: "exit code 3 and 'ValueError: no luck'".
std::string reason_text(const EndedRound& round) {
  const std::string code = round.signal != 0 ? "signal " + std::to_string(round.signal)
                                             : "exit code " + std::to_string(round.exit_code);
  return code + (round.error_line.empty() ? "" : " and '" + round.error_line + "'");
}

}  // namespace

std::string nodes_left_text(int needed, int left) {
  return std::to_string(left) + (left == 1 ? " node is" : " nodes are") + " left, and the job needs " +
         std::to_string(needed);
}

Milliseconds RestartPolicy::delay_before(int restart) {
  if (restart <= 1) return Milliseconds(0);
  // More doublings are not needed, because these already reach the longest delay.
  constexpr int kDoublings = 5;
  const std::chrono::seconds doubled(1 << std::min(restart - 2, kDoublings));
  return std::min<Milliseconds>(doubled, kMaxRestartDelay);
}

bool RestartPolicy::costs_restart(const EndedRound& round) const {
  if (round.cause == RoundEndCause::node_failed || round.cause == RoundEndCause::hung) return true;
  if (round.cause == RoundEndCause::node_left) return !limits_.elastic() && waits_for_another(round);
  if (round.cause != RoundEndCause::node_lost) return false;
  return as_torchrun() || !limits_.elastic() || round.nodes < limits_.min_nodes;
}

bool RestartPolicy::waits_for_another(const EndedRound& round) const {
  return round.enough && round.nodes < limits_.min_nodes;
}

/// Counts the failures in a row that had the same reason. A node that comes or leaves does not change the
/// count.
void RestartPolicy::remember(const EndedRound& round) {
  if (round.cause == RoundEndCause::node_left || round.cause == RoundEndCause::nodes_waiting) return;
  const bool in_vain = round.cause == RoundEndCause::node_failed && !round.stepped && round.lasted < kSoon;
  const Reason reason{round.exit_code, round.signal, without_numbers(round.error_line)};
  if (!in_vain)
    same_failures_ = 0;
  else if (same_failures_ > 0 && reason == reason_)
    ++same_failures_;
  else
    same_failures_ = 1;
  reason_ = reason;
}

/// Why no restart may be used for this end, if there is a reason.
std::optional<std::string> RestartPolicy::objection(const EndedRound& round) const {
  if (round.cause == RoundEndCause::hung && limits_.on_hang == HangAction::abort)
    return "no restart: a job that is hung ends (--on-hang abort)";
  if (restarts_ >= limits_.max_restarts)
    return "no restart is left (--max-restarts " + std::to_string(limits_.max_restarts) + ")";
  const bool exited = round.cause == RoundEndCause::node_failed && round.signal == 0;
  if (!as_torchrun() && exited && round.exit_code == kExitNotExecutable)
    return "no restart: exit code 126 says that a program could not be executed, which a restart does not "
           "change";
  if (!as_torchrun() && exited && round.exit_code == kExitNotFound)
    return "no restart: exit code 127 says that a program was not found, which a restart does not change";
  if (limits_.restart_rule == RestartRule::progress && same_failures_ >= kSameFailures)
    return "no restart: " + std::to_string(same_failures_) + " rounds in a row failed with " +
           reason_text(round) + ", each within " + seconds_text(kSoon) +
           " and without a step (--restart-policy progress)";
  return std::nullopt;
}

RestartPolicy::Decision RestartPolicy::decide(const EndedRound& round) {
  remember(round);
  const bool counts = costs_restart(round);
  Decision decision;
  // Ctrl-C at one of several launchers ends the whole job, because a person wants it.
  const bool by_hand = round.cause == RoundEndCause::node_left && round.exit_code == kExitInterrupted;
  const std::string left = nodes_left_text(limits_.min_nodes, round.nodes);
  const bool waits = waits_for_another(round);
  if (const auto why = counts && !by_hand ? objection(round) : std::nullopt) {
    const bool lost = waits && round.cause != RoundEndCause::node_failed;
    decision.text = (lost ? left + ", and " : "") + *why;
    return decision;
  }
  if (!round.enough || (counts && by_hand)) {
    decision.lacks_nodes = true;
    decision.text = left;
    return decision;
  }
  decision.again = true;
  if (!counts) {
    decision.text = "all workers start again";
    if (round.cause == RoundEndCause::node_lost) decision.text += " and no restart is used up: " + left;
    return decision;
  }
  ++restarts_;
  if (!as_torchrun()) decision.delay = delay_before(restarts_);
  if (waits)
    decision.text = left + ": waiting up to " + seconds_text(limits_.join_timeout) +
                    " for it to come back, or for another in its place, then ";
  decision.text += "restarting all workers" +
                   (decision.delay.count() > 0 ? " in " + seconds_text(decision.delay) : std::string()) +
                   " (restart " + std::to_string(restarts_) + " of " + std::to_string(limits_.max_restarts) +
                   ")";
  return decision;
}

}  // namespace muster::rendezvous
