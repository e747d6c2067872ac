// SPDX-License-Identifier: Apache-2.0
#include "agent/core/dial_judge.hpp"

namespace muster::agent {
namespace {

using rendezvous::CoordinatorError;
using rendezvous::Errc;
using rendezvous::TimePoint;

constexpr const char* kLonger = "--rdzv-conf join_timeout=SECONDS (static: timeout=SECONDS)";
constexpr const char* kMayBe =
    "; another program may listen there, or what leads there is up before the coordinator";

std::string seconds_text(std::chrono::seconds time) {
  return std::to_string(time.count()) + " s";
}

}  // namespace

std::string port_trouble_text(const PeerNode& node) {
  return node.port_trouble.empty() ? "" : "; here: " + node.port_trouble;
}

DialJudge::Judgement DialJudge::judge(const FailedDial& dial, bool before_round, TimePoint now) {
  const CoordinatorError& error = dial.error;
  last_trouble_ = error.what();
  if (!std::holds_alternative<PeerNode>(spec_.node.form) || !before_round) return {error};
  if (auto judgement = judge_wrong_key(dial)) return *judgement;
  if (auto verdict = hopeless(dial, now)) return {*verdict};
  std::string waiting = error.what();
  if (dial.no_address)
    waiting += name_wait_text(dial.no_such_name);
  else if (dial.no_answer)
    waiting += kMayBe;
  waiting += port_trouble_text(peer());
  if (error.code() == Errc::environment) return {{Errc::lost, error.what()}, waiting};
  return {error, waiting};
}

std::optional<DialJudge::Judgement> DialJudge::judge_wrong_key(const FailedDial& dial) {
  const CoordinatorError& error = dial.error;
  const std::string& source = peer().key_source;
  if (error.code() != Errc::mend) return std::nullopt;
  if (peer().munge && !by_munge_) {
    by_munge_ = true;
    return Judgement{{Errc::lost, error.what()}, "", true};
  }
  if (source.empty()) return Judgement{error};
  return Judgement{{error.code(), std::string(error.what()) + "; our key is " + source + ": copy that of " +
                                      spec_.node.coordinator_host +
                                      " to it (mode 0600), or give every host the same --secret-file"}};
}

/// The verdict on dialling that has failed for a while in a way that waiting does not mend. A user who says
/// how long to wait is heard. A peer that hangs up may be a tunnel or a proxy whose coordinator is not up
/// yet, or one that strangers crowd.
std::optional<CoordinatorError> DialJudge::hopeless(const FailedDial& dial, TimePoint now) {
  const auto lasts = [&](bool is_so, std::optional<TimePoint>& since, auto at_most) {
    since = is_so ? std::optional(since.value_or(dial.began)) : std::nullopt;
    return is_so && now - *since >= at_most;
  };
  const bool silent_too_long = lasts(dial.silent, silent_since_, kSilentAtMost);
  const bool nameless_too_long = lasts(dial.no_such_name, no_such_name_since_, kNoSuchNameAtMost);
  if (peer().waits_for_name) return std::nullopt;
  if (silent_too_long)
    return CoordinatorError(
        Errc::mend, std::string(dial.error.what()) + "; for " + seconds_text(kSilentAtMost) +
                        " something there has taken connections and not answered as a coordinator does: "
                        "another program listens there, or the coordinator is stopped; see 'ss -ltnp' on " +
                        spec_.node.coordinator_host + ", choose another port, or wait longer by " + kLonger +
                        port_trouble_text(peer()));
  if (nameless_too_long)
    return CoordinatorError(Errc::mend,
                            std::string(dial.error.what()) + "; for " + seconds_text(kNoSuchNameAtMost) +
                                " there was no such name; to wait longer for one that appears later, give " +
                                kLonger);
  return std::nullopt;
}

/// How long a name is waited for that may appear late, as that of a service whose pods have just started.
std::string DialJudge::name_wait_text(bool no_such_name) const {
  const bool short_wait = no_such_name && !peer().waits_for_name;
  const auto join_timeout = std::chrono::duration_cast<std::chrono::seconds>(spec_.limits.join_timeout);
  // Whether a node hosts the coordinator was inferred when the name named nobody (c10d; else by --node-rank).
  const bool inferred = spec_.node.node_rank < 0;
  return "; names may appear late: tried again for " +
         seconds_text(short_wait ? kNoSuchNameAtMost : join_timeout) +
         (inferred ? "; the host that it will name needs --rdzv-conf is_host=1" : "");
}

}  // namespace muster::agent
