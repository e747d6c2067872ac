// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/ssh_starter.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/start/core/start_queue.hpp"

#include <stdexcept>
#include <utility>

namespace muster::launcher {
SshStarter::SshStarter(const std::vector<NodePlan>& nodes, const RemoteOptions& options, std::string version,
                       const agent::SignalState& signals)
    : ClientStarter(nodes, options, std::move(version), signals, true, {kResolveSoon}),
      default_port_(options.ssh_port) {
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
    return ssh_arguments(client_, target(node), remote_command());
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
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
  place.connect_timeout_s = client_.connect_timeout_s;
  return explain_start(end, place);
}

}  // namespace muster::launcher
