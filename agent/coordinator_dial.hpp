// SPDX-License-Identifier: Apache-2.0
// How an agent reaches a coordinator on another host: by TLS with its key, or with the identity that munge
// vouches for.
#pragma once

#include "agent/core/dial_judge.hpp"
#include "agent/node_options.hpp"
#include "agent/wait_notice.hpp"
#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/tls/peer_identity.hpp"
#include "rendezvous/tls/secret.hpp"
#include "rendezvous/wire/byte_stream.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <exception>
#include <functional>
#include <memory>
#include <string>

namespace muster::agent {

/// One thread, the executor's. Says by its notice what a node of the form `peer` waits for.
class CoordinatorDial {
 public:
  /// `options` outlive the object. `before_round`: whether this node dials, or waits
  /// for a round, so that no worker of it is in one.
  CoordinatorDial(const boost::asio::any_io_executor& executor, const NodeAgentOptions& options,
                  std::function<bool()> before_round);

  /// Who dials, and how long it may hear nothing.
  rendezvous::ClientOptions client_options() const;

  /// One attempt, as a rendezvous::Connector makes it.
  boost::asio::awaitable<std::unique_ptr<rendezvous::ByteStream>> connect(rendezvous::TimePoint deadline);

  /// Before the first attempt: people are told of one that takes long.
  void begin();

  /// What the coordinator itself says of the wait.
  void say(const std::string& text) { notice_.update(text); }

  /// Nothing is waited for any more.
  void end() { notice_.end(); }

  /// Where the coordinator is: "n0 port 29400", "on this node".
  std::string where() const;

  /// Says that no connection came about. A wait that has ended (`error`) does not say what it met with, so
  /// the last attempt does.
  std::string failure_text(const std::exception& error) const;

 private:
  std::string munge_credential(const rendezvous::PeerIdentity& identity, rendezvous::Secret& key) const;
  rendezvous::CoordinatorError judged(const FailedDial& dial);
  std::string waiting_text() const;

  boost::asio::any_io_executor executor_;
  const NodeAgentOptions& options_;
  const AgentSpec& spec_;
  std::function<bool()> before_round_;
  DialJudge judge_;
  WaitNotice notice_;
};

}  // namespace muster::agent
