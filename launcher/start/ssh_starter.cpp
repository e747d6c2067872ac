// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/ssh_starter.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/start/core/start_times.hpp"

#include <stdexcept>
#include <utility>

namespace muster::launcher {
SshStarter::SshStarter(const std::vector<NodePlan>& nodes, const RemoteOptions& options, std::string version,
                       const agent::SignalState& signals)
    : ClientStarter(nodes, options, std::move(version), signals, true, {kResolveSoon}),
      default_port_(options.ssh_port),
      login_timeout_(options.login_timeout),
      push_(options.push) {
  if (options.ssh_tree > 0) {
    std::vector<bool> local;
    for (const NodePlan& node : nodes) local.push_back(node.local);
    tree_ = StartTree(local, options.ssh_tree);
  }
  client_.words = options.ssh_command;
  client_.config_file = options.ssh_config;
  client_.accept_new_host_keys = options.accept_new_host_keys;
  client_.connect_timeout_s = connect_timeout_s(options.login_timeout);
}

SshTarget SshStarter::target(std::size_t node) const {
  const NodePlan& there = plan(node);
  return {there.ssh_target, there.user, there.ssh_port != 0 ? there.ssh_port : default_port_};
}

std::vector<std::string> SshStarter::arguments(std::size_t node) const {
  try {
    const bool inner = tree_.is_inner(node);
    return ssh_arguments(client_, target(node), inner ? branch_command() : remote_command(), inner);
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

BranchPlan SshStarter::branch(std::size_t node) const {
  BranchPlan made{client_, remote_command(), branch_command(), push_, login_timeout_.count(), {}};
  for (const std::size_t index : tree_.subtree(node))
    made.nodes.push_back({index, tree_.parent(index), plan(index).name, target(index)});
  return made;
}

std::string SshStarter::server(std::size_t node) const {
  return server_of(target(node));
}

StartFailure SshStarter::explain(std::size_t node, const StartEnd& end) const {
  const SshTarget where = target(node);
  StartPlace place;
  const std::string& client = client_.words.front();
  place.client = client.substr(client.find_last_of('/') + 1);
  place.target = where.user.empty() ? where.host : where.user + "@" + where.host;
  place.port = where.port;
  place.version_here = version();
  if (const int parent = tree_.parent(node); parent != StartTree::kNobody)
    place.from = plan(static_cast<std::size_t>(parent)).name;
  place.connect_timeout_s = client_.connect_timeout_s;
  return explain_start(end, place);
}

}  // namespace muster::launcher
