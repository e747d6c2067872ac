// SPDX-License-Identifier: Apache-2.0
// What a failed attempt to reach the coordinator means: try again, try another proof of who we are, or give
// up. Pure.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/ids.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace muster::agent {

/// One attempt that failed.
struct FailedDial {
  rendezvous::CoordinatorError error;
  rendezvous::TimePoint began{};
  /// Something took the connection and did not answer as a coordinator does.
  bool no_answer = false;
  /// What took the connection said nothing, and did not hang up either.
  bool silent = false;
  /// The coordinator's name does not resolve.
  bool no_address = false;
  /// A name server says that there is no such name.
  bool no_such_name = false;
};

/// In the form `peer` somebody else starts the coordinator's host, maybe later, and gives it its name and its
/// key; so what would be final elsewhere is waited for there. One thread.
class DialJudge {
 public:
  /// Longer than a handshake may take (kHelloTimeout) and than a coordinator is busy with a flood.
  static constexpr std::chrono::seconds kSilentAtMost{10};
  /// A cluster's name server learns of a pod that has just been started, and then forgets that it did not
  /// know it: both take seconds.
  static constexpr std::chrono::seconds kNoSuchNameAtMost{30};

  struct Judgement {
    /// As a Connector throws it: lost and deadline mean that trying again may help.
    rendezvous::CoordinatorError error;
    /// What people are told while the attempts go on; empty: nothing new.
    std::string waiting{};
    /// The next attempt proves who we are by munge, which this one has just shown to be needed.
    bool begins_with_munge = false;
  };

  /// `spec` outlives the judge; its coordinator_host may change.
  explicit DialJudge(const AgentSpec& spec) : spec_(spec) {}

  /// `before_round`: no worker of this node is in a round, so that waiting costs nobody's work.
  Judgement judge(const FailedDial& dial, bool before_round, rendezvous::TimePoint now);

  /// Our key is not the coordinator's: munge says who we are.
  bool by_munge() const { return by_munge_; }

  /// Why the last attempt failed; empty: none has.
  const std::string& last_trouble() const { return last_trouble_; }

 private:
  std::optional<Judgement> judge_wrong_key(const FailedDial& dial);
  std::optional<rendezvous::CoordinatorError> hopeless(const FailedDial& dial, rendezvous::TimePoint now);
  std::string name_wait_text(bool no_such_name) const;

  const PeerNode& peer() const { return std::get<PeerNode>(spec_.node.form); }

  const AgentSpec& spec_;
  std::string last_trouble_;
  /// Since then every attempt has failed in the same way, which waiting does not mend: what listens there
  /// says nothing, or there is no such name.
  std::optional<rendezvous::TimePoint> silent_since_;
  std::optional<rendezvous::TimePoint> no_such_name_since_;
  bool by_munge_ = false;
};

/// "; here: PORT is taken by ...": what kept a node of the form `peer` from hosting the coordinator itself;
/// empty: nothing.
std::string port_trouble_text(const PeerNode& node);

}  // namespace muster::agent
