// SPDX-License-Identifier: Apache-2.0
#include "agent/core/stop_notice.hpp"

#include "agent/core/exit_status.hpp"
#include "agent/core/node_verdict.hpp"

#include <nlohmann/json.hpp>

namespace muster::agent {
namespace {

/// `text` where no single rank has failed.
std::string failure_of(int rank, const std::string& text) {
  return rank >= 0 ? "failure of rank " + std::to_string(rank) : text;
}

}  // namespace

std::string stop_notice(const std::string& ordered, const rendezvous::FailRound& failure,
                        std::chrono::milliseconds grace) {
  const std::string reason = failure.text.empty() ? ordered : failure_of(failure.rank, failure.text);
  if (reason.empty()) return {};
  const nlohmann::json notice = {{"reason", reason.substr(0, kStopReasonMax)},
                                 {"grace_s", std::chrono::duration<double>(grace).count()}};
  return notice.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string stop_reason(const rendezvous::RoundEnd& end) {
  using Cause = rendezvous::RoundEndCause;
  if (end.cause == Cause::node_left) return signal_name(stop_signal_of(end));
  const std::string text = end.text.empty() ? "the round ends" : end.text;
  return end.cause == Cause::node_failed ? failure_of(end.rank, text) : text;
}

}  // namespace muster::agent
