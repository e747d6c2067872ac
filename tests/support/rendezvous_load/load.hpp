// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/tls/secret.hpp"
#include "rendezvous/tls/tls_stream.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <string>

namespace muster::load {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Connects as `node` to `where`, from `local_address` if there is one.
inline rendezvous::Connector connector(boost::asio::any_io_executor executor,
                                       const rendezvous::Secret& secret, const rendezvous::Endpoint& where,
                                       const std::string& node, const std::string& local_address) {
  rendezvous::PeerIdentity identity;
  identity.job = "load";
  identity.node = node;
  return [executor, &secret, where, identity, local_address](rendezvous::TimePoint deadline) {
    return rendezvous::connect_tls(executor, where, identity, rendezvous::derive_key(secret, identity),
                                   deadline, local_address);
  };
}

inline rendezvous::ClientOptions client_options(const std::string& node) {
  rendezvous::ClientOptions options;
  options.run_id = "load";
  options.node = node;
  options.host = node;
  options.lost_after = rendezvous::kDeadAfter;
  return options;
}

inline rendezvous::Join join_request(const std::string& node) {
  rendezvous::Join request;
  request.host = node;
  request.address = "127.0.0.1";
  return request;
}

inline rendezvous::LeaveRound leaving(rendezvous::RoundNumber round, rendezvous::RoundOutcome outcome) {
  rendezvous::LeaveRound request;
  request.round = round;
  request.outcome = outcome;
  return request;
}

/// Until the timer expires or somebody cancels it.
inline boost::asio::awaitable<void> wait(boost::asio::steady_timer& timer) {
  try {
    co_await timer.async_wait(boost::asio::use_awaitable);
  } catch (const boost::system::system_error&) {
    // Woken before its time.
  }
}

/// `count` TLS agents from as many addresses join, join again when one has failed, idle, and leave; prints
/// one line of JSON.
int run_agents(const rendezvous::Secret& secret, int port, int count, int idle_s);

/// One agent and a worker's store connection for `duration_s`; prints ten lines of JSON a second with what
/// each request took.
int run_probe(const rendezvous::Secret& secret, const rendezvous::Endpoint& where, int duration_s);

struct Attack {
  /// slowloris: `rate` connections are held, each says a byte now and then, those that are cut come again.
  /// Otherwise so many new connections a second; flood: reset at once; scan: some bytes of no protocol;
  /// oversized: records and messages longer than allowed; wrong_key: the first message of a handshake.
  std::string kind;
  int rate = 0;
  /// So many at once.
  int burst = 1;
  rendezvous::Endpoint target;
  /// The first two numbers of the addresses to come from; empty: the kernel's choice.
  std::string source_prefix;
  int duration_s = 0;
};

/// A stranger without a key; prints one line of JSON with what it did.
int run_attack(const Attack& attack);

}  // namespace muster::load
