// SPDX-License-Identifier: Apache-2.0
// A rendezvous daemon on a loopback port in a thread of its own, and clients of it on one event loop.
#pragma once

#include "rendezvous/server/listen_socket.hpp"
#include "rendezvous/tls/tls_stream.hpp"
#include "tests/integration/control/control_fixture.hpp"

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace muster::rendezvous::test {

PeerIdentity identity_of(const std::string& node, PeerIdentity::Role role = PeerIdentity::Role::agent);

/// A client with everything that it was told.
struct NetworkNode {
  std::vector<RoundEnd> ends;
  std::vector<std::string> losses;
  std::vector<JobClosed> closings;
  std::vector<std::string> interruptions;
  std::vector<std::shared_ptr<Channel>> channels;
  int resumptions = 0;
  /// Answers to questions whose connection it is; questions are counted.
  bool vouches = true;
  std::vector<Vouch> questions;
  std::unique_ptr<CoordinatorClient> client;

  ClientEvents events();
};

class NetworkBench {
 public:
  explicit NetworkBench(int node_count, bool store_proxy = false);
  ~NetworkBench();

  Endpoint endpoint() const { return Endpoint{listener.address.host(), listener.address.port()}; }

  ClientOptions client_options(const std::string& name) const;
  Connector connector(const PeerIdentity& identity, const Endpoint& where);

  /// The agent on the daemon's own host.
  NetworkNode& local_node(const std::string& name);

  NetworkNode& node(const std::string& name) { return node(name, identity_of(name), endpoint()); }

  NetworkNode& node(const std::string& name, const PeerIdentity& identity, const Endpoint& where);

  void run_until(const std::function<bool()>& done) { muster::test::run_until(context, done); }

  /// Lets what is on its way arrive: until nothing has happened for a moment.
  void settle();

  template <typename Work>
  auto spawn(Work work) {
    return spawn_on(context, std::move(work));
  }

  asio::io_context context{1};
  Secret secret = Secret::random();
  ListenSocket listener;
  int local_fd = -1;
  int exit_code = -1;
  std::thread daemon;
  std::unique_ptr<NetworkNode> local;
  std::vector<std::unique_ptr<NetworkNode>> nodes;
};

}  // namespace muster::rendezvous::test
