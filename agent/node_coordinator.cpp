// SPDX-License-Identifier: Apache-2.0
// The part of NodeSession that speaks with the coordinator.
#include "agent/node_session.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/munge/munge.hpp"
#include "rendezvous/net/name_lookup.hpp"
#include "rendezvous/tls/tls_stream.hpp"

#include <signal.h>

#include <optional>
#include <string>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;
using asio::awaitable;

namespace {

/// Time after which something that takes connections and says nothing is given up. It is longer than a
/// handshake may take (kHelloTimeout), and than a flood keeps a coordinator busy.
constexpr std::chrono::seconds kSilentAtMost{10};
/// Time after which a name that does not exist is given up. A cluster's name server needs seconds to learn of
/// a pod that has just been started, and to forget that it did not know the name.
constexpr std::chrono::seconds kNoSuchNameAtMost{30};
constexpr const char* kLonger = "--rdzv-conf join_timeout=SECONDS (static: timeout=SECONDS)";
constexpr const char* kMayBe =
    "; another program may listen there, or what leads there is up before the coordinator";

}  // namespace

awaitable<std::unique_ptr<rendezvous::ByteStream>> NodeSession::dial(rendezvous::TimePoint deadline) {
  rendezvous::Endpoint where;
  where.host = spec_.node.coordinator_host;
  where.port = spec_.node.coordinator_port;
  rendezvous::PeerIdentity identity = identity_of(spec_);
  rendezvous::Secret key = options_.node.key->copy();
  std::string local_address = spec_.node.local_addr;
  std::string credential = !started() && as_peer().munge ? munge_credential(identity, key) : std::string();
  const auto began = std::chrono::steady_clock::now();
  std::optional<FailedDial> trouble;
  try {
    co_return co_await rendezvous::connect_tls(executor_, std::move(where), std::move(identity),
                                               std::move(key), deadline, std::move(local_address),
                                               std::move(credential));
  } catch (const rendezvous::StrangerError&) {
    throw;
  } catch (const rendezvous::NoAnswerError& error) {
    trouble = FailedDial{error, began, true, error.code() == rendezvous::Errc::deadline, false};
  } catch (const rendezvous::NoAddressError& error) {
    trouble = FailedDial{error, began, false, false, true, error.no_such_name()};
  } catch (const rendezvous::CoordinatorError& error) {
    trouble = FailedDial{error, began};
  }
  throw judge_failed_dial(*trouble);
}

/// Replaces `key` by one that is drawn for this connection, and returns the munge credential that brings the
/// new key along; empty while the key file serves.
std::string NodeSession::munge_credential(const rendezvous::PeerIdentity& identity,
                                          rendezvous::Secret& key) const {
  if (!by_munge_ && !as_peer().key_source.empty()) return "";
  std::string reason;
  const auto munge = rendezvous::Munge::load(reason);
  if (!munge) return "";
  try {
    rendezvous::Secret drawn = rendezvous::Secret::random();
    std::string text = rendezvous::munge_identity(*munge, identity, drawn);
    key = std::move(drawn);
    return text;
  } catch (const std::exception& error) {
    log_warning(error.what());
    return "";
  }
}

/// Decides whether to dial again: in the form `peer` somebody else starts the coordinator's host, maybe
/// later, and gives it its name and key.
rendezvous::CoordinatorError NodeSession::judge_failed_dial(const FailedDial& dial) {
  const std::string& host = spec_.node.coordinator_host;
  const rendezvous::CoordinatorError& error = dial.error;
  last_trouble_ = error.what();
  if (started() || !life_.before_round()) return error;
  const PeerNode& own = as_peer();
  if (error.code() == rendezvous::Errc::mend && own.munge && !by_munge_) {
    by_munge_ = true;
    log_info("the key " + own.key_source + " is not that of " + host + "; trying munge");
    return {rendezvous::Errc::lost, error.what()};
  }
  if (error.code() == rendezvous::Errc::mend) {
    if (own.key_source.empty()) return error;
    return {error.code(), std::string(error.what()) + "; our key is " + own.key_source + ": copy that of " +
                              host + " to it (mode 0600), or give every host the same --secret-file"};
  }
  if (const auto verdict = hopeless(dial)) return *verdict;
  std::string more = dial.no_answer ? kMayBe : "";
  if (dial.no_address) more = name_wait_text(dial.no_such_name);
  wait_notice_.update(waiting_text() + error.what() + more + port_trouble_text());
  if (error.code() == rendezvous::Errc::environment) return {rendezvous::Errc::lost, error.what()};
  return error;
}

/// Returns an error if dialling has failed for a while in a way that waiting does not mend, unless the user
/// says how long to wait. To be hung up on is no such way: a tunnel or a proxy does that when its coordinator
/// is not up yet, and a coordinator that strangers crowd.
std::optional<rendezvous::CoordinatorError> NodeSession::hopeless(const FailedDial& dial) {
  using rendezvous::Errc;
  const auto lasts = [&dial](bool now, std::optional<rendezvous::TimePoint>& since, auto at_most) {
    since = now ? std::optional(since.value_or(dial.began)) : std::nullopt;
    return now && std::chrono::steady_clock::now() - *since >= at_most;
  };
  const bool may_end = !as_peer().waits_for_name;
  if (lasts(dial.silent, silent_since_, kSilentAtMost) && may_end)
    return rendezvous::CoordinatorError(
        Errc::mend, std::string(dial.error.what()) + "; for " + std::to_string(kSilentAtMost.count()) +
                        " s something there has taken connections and not answered as a coordinator does: "
                        "another program listens there, or the coordinator is stopped; see 'ss -ltnp' on " +
                        spec_.node.coordinator_host + ", choose another port, or wait longer by " + kLonger +
                        port_trouble_text());
  if (lasts(dial.no_such_name, no_such_name_since_, kNoSuchNameAtMost) && may_end)
    return rendezvous::CoordinatorError(
        Errc::mend, std::string(dial.error.what()) + "; for " + std::to_string(kNoSuchNameAtMost.count()) +
                        " s there was no such name; to wait longer for one that appears later, give " +
                        kLonger);
  return std::nullopt;
}

/// Says how long a name is tried again that may appear late, like that of a service whose pods have just
/// started.
std::string NodeSession::name_wait_text(bool no_such_name) const {
  const bool short_wait = no_such_name && !as_peer().waits_for_name;
  const auto join_timeout = std::chrono::duration_cast<std::chrono::seconds>(spec_.join_timeout);
  return "; names may appear late: tried again for " +
         std::to_string((short_wait ? kNoSuchNameAtMost : join_timeout).count()) + " s";
}

std::string NodeSession::port_trouble_text() const {
  const std::string& trouble = as_peer().port_trouble;
  return trouble.empty() ? "" : "; here: " + trouble;
}

/// Returns the beginning of the line that a node of the form `peer` prints until the coordinator has
/// answered; the cause follows it.
std::string NodeSession::waiting_text() const {
  return "waiting for " + coordinator_text() + " to host job '" + spec_.run_id + "': ";
}

rendezvous::ClientOptions NodeSession::client_options() const {
  rendezvous::ClientOptions client;
  client.run_id = spec_.run_id;
  client.node = spec_.node.name;
  client.host = spec_.host;
  client.version = options_.node.version;
  if (options_.control_fd < 0) client.lost_after = rendezvous::kDeadAfter;
  if (std::holds_alternative<PeerNode>(spec_.node.form)) client.limits = limits_of(spec_);
  return client;
}

rendezvous::ClientEvents NodeSession::client_events() {
  rendezvous::ClientEvents events;
  events.status = [this](const rendezvous::Status& status) {
    if (alone())
      log_info(status.text);
    else if (!started())
      wait_notice_.update(status.text);
    else if (spec_.node.coordinator)
      tell(LinkMessage::Kind::status, 0, status.text);
  };
  // The state changes here and not in leave(): the end of the round may follow in the same packet, and calls
  // back a node that waits.
  events.left = [this](const rendezvous::Left& left) {
    const bool waits = left.next == rendezvous::NextStep::wait && !alone();
    if (waits && life_.phase() == NodeLife::leaving) life_.wait();
  };
  events.round_ended = [this](const rendezvous::RoundEnd& end) { on_round_ended(end); };
  events.job_closed = [this](const rendezvous::JobClosed& closed) { on_job_closed(closed); };
  events.lost = [this](const std::string& reason) {
    coordinator_lost_ = true;
    // Before the first answer connect() says what is wrong.
    if (!closed_ && life_.connected() && alone())
      fail("the store process was lost: " + reason);
    else if (!closed_ && life_.connected())
      fail("node " + name_in_texts() + " lost the coordinator (" + coordinator_text() + "): " + reason);
  };
  events.vouch = [this](const rendezvous::Vouch& question) { on_vouch(question); };
  events.channel_opened = [this](const rendezvous::ChannelOpen&,
                                 std::shared_ptr<rendezvous::Channel> channel) {
    if (!link_ || !started()) return channel->close("this node has no link that could move");
    // The guardian is told before the old way ends, or it would take that for the end of the launcher.
    say_go_on();
    link_->move_to(rendezvous::make_channel_stream(executor_, std::move(channel)));
    log_info("the launcher's link goes through the coordinator now");
  };
  return events;
}

std::string NodeSession::coordinator_text() const {
  if (options_.control_fd >= 0) return "on this node";
  return spec_.node.coordinator_host + " port " + std::to_string(spec_.node.coordinator_port);
}

namespace {

/// Returns the signal for this node's workers: the one that a node which was told to stop gave to its own.
int signal_of(const rendezvous::RoundEnd& end) {
  const int signal = end.exit_code - 128;
  return end.cause == rendezvous::RoundEndCause::node_left && signal > 0 && signal < NSIG ? signal : SIGTERM;
}

}  // namespace

void NodeSession::on_round_ended(const rendezvous::RoundEnd& end) {
  if (!ended_) ended_ = end;
  if (life_.has_left()) {
    note_decision(end);
    if (end.again && life_.phase() == NodeLife::waiting) {
      life_.recall();
      say_restart(end);
      verdict_.set();
    }
    return;
  }
  // While join() returns, this node's place is known but no worker runs: start_workers() looks at ended_.
  if (runner_ && place_.round == end.round) runner_->stop(signal_of(end));
}

/// Describes the end of a round by this node's own failure: the other nodes were told of it, this node is
/// told only what was decided then.
rendezvous::RoundEnd NodeSession::own_end(const rendezvous::Left& left) const {
  const std::string& failure = runner_->first_failure().text;
  rendezvous::RoundEnd end;
  end.round = left.round;
  end.node = spec_.node.name;
  end.text = failure.empty() ? error_ : failure;
  end.again = left.next == rendezvous::NextStep::join;
  end.restarts = left.restarts;
  end.delay = left.delay;
  end.decision = left.decision;
  return end;
}

void NodeSession::note_decision(const rendezvous::RoundEnd& end) {
  // A decision about a job that was ordered to end has no effect.
  if (end.decision.empty() || !life_.goes_on()) return;
  if (decisions_.size() == kDecisionsKept) decisions_.erase(decisions_.begin());
  RestartDecision decision;
  decision.round = end.round;
  decision.cause = end.text;
  decision.decision = end.decision;
  decision.again = end.again;
  decision.restarts = end.restarts;
  decision.delay_ms = end.delay.count();
  decision.is_cause = end.decision_is_cause;
  decisions_.push_back(std::move(decision));
}

/// Logs a restart once for the job: by the node that hosts the coordinator, or by every launcher of the peer
/// form.
void NodeSession::say_restart(const rendezvous::RoundEnd& end) {
  if (started() && !spec_.node.coordinator) return;
  std::string text = "round " + std::to_string(end.round) + " ended: " + end.text + "; " + end.decision;
  if (started())
    tell(LinkMessage::Kind::log, 0, std::move(text));
  else
    log_warning(text);
}

void NodeSession::on_job_closed(const rendezvous::JobClosed& closed) {
  closed_ = closed;
  verdict_.set();
  if (runner_ && !life_.has_left()) runner_->stop(SIGTERM);
}

void NodeSession::on_vouch(const rendezvous::Vouch& question) {
  const VouchVerdict verdict =
      voucher_.judge(question.peer_host, question.peer_port, question.local_host, question.local_port);
  rendezvous::Vouched answer;
  answer.id = question.id;
  answer.allowed = verdict.allowed;
  answer.reason = verdict.reason;
  coordinator_->vouched(std::move(answer));
}

}  // namespace muster::agent
