// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/network/network_fixture.hpp"

#include "rendezvous/server/daemon/embedded_daemon.hpp"

#include <unistd.h>

#include <stdexcept>
#include <utility>

namespace muster::rendezvous::test {

PeerIdentity identity_of(const std::string& node, PeerIdentity::Role role) {
  PeerIdentity identity;
  identity.role = role;
  identity.job = "job";
  identity.node = node;
  return identity;
}

ClientEvents NetworkNode::events() {
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
    client->tell(answer);
  };
  return events;
}

NetworkBench::NetworkBench(int node_count, bool store_proxy)
    : listener(open_listen_socket("127.0.0.1", 0, true, false)) {
  const auto [ours, theirs] = socket_pair();
  local_fd = ours;
  EmbeddedOptions options;
  options.control_fd = theirs;
  options.run_id = "job";
  options.limits.min_nodes = options.limits.max_nodes = node_count;
  EmbeddedOptions::Network network;
  network.listen_fd = listener.fd.release();
  network.job_secret = std::make_shared<const Secret>(secret.copy());
  options.limits.store_proxy = store_proxy;
  options.network = std::move(network);
  daemon = std::thread([this, options] { exit_code = run_embedded_daemon(options); });
}

NetworkBench::~NetworkBench() {
  local.reset();
  if (local_fd >= 0) ::close(local_fd);
  nodes.clear();
  settle();
  daemon.join();
}

ClientOptions NetworkBench::client_options(const std::string& name) const {
  ClientOptions options;
  options.run_id = "job";
  options.node = name;
  options.host = name;
  options.lost_after = 5s;
  return options;
}

Connector NetworkBench::connector(const PeerIdentity& identity, const Endpoint& where) {
  return [this, identity, where](TimePoint deadline) {
    return connect_tls(context.get_executor(), where, identity, derive_key(secret, identity), deadline);
  };
}

NetworkNode& NetworkBench::local_node(const std::string& name) {
  local = std::make_unique<NetworkNode>();
  ClientOptions options = client_options(name);
  options.lost_after = 0s;
  local->client = std::make_unique<CoordinatorClient>(context.get_executor(), std::exchange(local_fd, -1),
                                                      options, local->events());
  return *local;
}

NetworkNode& NetworkBench::node(const std::string& name, const PeerIdentity& identity,
                                const Endpoint& where) {
  auto made = std::make_unique<NetworkNode>();
  ClientOptions options = client_options(name);
  if (identity.role == PeerIdentity::Role::launcher) options.role = Role::launcher;
  made->client = std::make_unique<CoordinatorClient>(context.get_executor(), connector(identity, where),
                                                     in(20s), options, made->events());
  return *nodes.emplace_back(std::move(made));
}

void NetworkBench::settle() {
  context.restart();
  while (context.run_one_for(50ms) > 0) {
  }
}

}  // namespace muster::rendezvous::test
