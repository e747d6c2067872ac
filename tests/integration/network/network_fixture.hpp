// SPDX-License-Identifier: Apache-2.0
// A rendezvous daemon on a loopback port in a thread of its own, and clients of it on one event loop.
#pragma once

#include "rendezvous/server/embedded_daemon.hpp"
#include "rendezvous/server/listen_socket.hpp"
#include "rendezvous/tls/tls_stream.hpp"
#include "tests/integration/control/control_fixture.hpp"

#include <thread>

namespace muster::rendezvous::test {

inline PeerIdentity identity_of(const std::string& node,
                                PeerIdentity::Role role = PeerIdentity::Role::agent) {
  PeerIdentity identity;
  identity.role = role;
  identity.job = "job";
  identity.node = node;
  return identity;
}

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

  ClientEvents events() {
    ClientEvents events;
    events.round_ended = [this](const RoundEnd& end) { ends.push_back(end); };
    events.lost = [this](const std::string& reason) { losses.push_back(reason); };
    events.job_closed = [this](const JobClosed& closed) { closings.push_back(closed); };
    events.interrupted = [this](const std::string& reason) { interruptions.push_back(reason); };
    events.resumed = [this] { ++resumptions; };
    events.channel_opened = [this](const ChannelOpen&, std::shared_ptr<Channel> channel) {
      channels.push_back(std::move(channel));
    };
    events.vouch = [this](const Vouch& question) {
      questions.push_back(question);
      Vouched answer;
      answer.id = question.id;
      answer.allowed = vouches;
      answer.reason = "it belongs to uid 7, not to ours";
      client->vouched(answer);
    };
    return events;
  }
};

class NetworkBench {
 public:
  explicit NetworkBench(int node_count, bool store_proxy = false)
      : listener(open_listen_socket("127.0.0.1", 0, true, false)) {
    const auto [ours, theirs] = socket_pair();
    local_fd = ours;
    EmbeddedOptions options;
    options.control_fd = theirs;
    options.run_id = "job";
    options.min_nodes = options.max_nodes = node_count;
    options.network.emplace();
    options.network->listen_fd = listener.fd.release();
    options.network->job_secret = std::make_shared<const Secret>(secret.copy());
    options.network->store_proxy = store_proxy;
    daemon = std::thread([this, options] { exit_code = run_embedded_daemon(options); });
  }

  ~NetworkBench() {
    local.reset();
    if (local_fd >= 0) ::close(local_fd);
    nodes.clear();
    settle();
    daemon.join();
  }

  Endpoint endpoint() const { return Endpoint{listener.address.host(), listener.address.port()}; }

  ClientOptions client_options(const std::string& name) const {
    ClientOptions options;
    options.run_id = "job";
    options.node = name;
    options.host = name;
    options.lost_after = 5s;
    return options;
  }

  Connector connector(const PeerIdentity& identity, const Endpoint& where) {
    return [this, identity, where](TimePoint deadline) {
      return connect_tls(context.get_executor(), where, identity, derive_key(secret, identity), deadline);
    };
  }

  /// The agent on the daemon's own host.
  NetworkNode& local_node(const std::string& name) {
    local = std::make_unique<NetworkNode>();
    ClientOptions options = client_options(name);
    options.lost_after = 0s;
    local->client = std::make_unique<CoordinatorClient>(context.get_executor(), std::exchange(local_fd, -1),
                                                        options, local->events());
    return *local;
  }

  NetworkNode& node(const std::string& name) { return node(name, identity_of(name), endpoint()); }

  NetworkNode& node(const std::string& name, const PeerIdentity& identity, const Endpoint& where) {
    auto made = std::make_unique<NetworkNode>();
    ClientOptions options = client_options(name);
    if (identity.role == PeerIdentity::Role::launcher) options.role = Role::launcher;
    made->client = std::make_unique<CoordinatorClient>(context.get_executor(), connector(identity, where),
                                                       in(20s), options, made->events());
    return *nodes.emplace_back(std::move(made));
  }

  void run_until(const std::function<bool()>& done) {
    const TimePoint deadline = in(30s);
    while (!done()) {
      context.restart();
      if (context.run_one_until(deadline) == 0 && std::chrono::steady_clock::now() >= deadline)
        throw std::runtime_error("the test waited 30 s in vain");
    }
  }

  /// Lets what is on its way arrive: until nothing has happened for a moment.
  void settle() {
    context.restart();
    while (context.run_one_for(50ms) > 0) {
    }
  }

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
