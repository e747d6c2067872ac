// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/node_starter.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/start/core/srun_command.hpp"
#include "launcher/start/core/ssh_command.hpp"
#include "launcher/start/core/start_queue.hpp"

#include <unistd.h>

#include <stdexcept>
#include <string_view>
#include <utility>

namespace muster::launcher {

NodeStarter::NodeStarter(const std::vector<NodePlan>& nodes, const RemoteOptions& options,
                         const std::string& version, const agent::SignalState& signals, bool shell_stays,
                         std::vector<std::string> defaults)
    : nodes_(nodes),
      remote_(remote_start(options, version, shell_stays)),
      version_(version),
      signals_(signals),
      defaults_(std::move(defaults)) {}

namespace {

class SshStarter final : public NodeStarter {
 public:
  SshStarter(const std::vector<NodePlan>& nodes, const RemoteOptions& options, const std::string& version,
             const agent::SignalState& signals)
      : NodeStarter(nodes, options, version, signals, true, {kResolveSoon}), default_port_(options.ssh_port) {
    client_.words = options.ssh_command;
    client_.config_file = options.ssh_config;
    client_.accept_new_host_keys = options.accept_new_host_keys;
    client_.connect_timeout_s = connect_timeout_s(options.login_timeout);
  }

  std::string server(std::size_t node) const override { return server_of(target(node)); }

  StartFailure explain(std::size_t node, const StartEnd& end) const override {
    const SshTarget where = target(node);
    StartPlace place;
    const std::string& client = client_.words.front();
    place.client = client.substr(client.find_last_of('/') + 1);
    place.target = where.user.empty() ? where.host : where.user + "@" + where.host;
    place.port = where.port;
    place.version_here = version_;
    place.connect_timeout_s = client_.connect_timeout_s;
    return explain_start(end, place);
  }

 private:
  std::vector<std::string> arguments(std::size_t node) const override {
    try {
      return ssh_arguments(client_, target(node), remote_.command);
    } catch (const std::invalid_argument& error) {
      throw UsageError(error.what());
    }
  }

  SshTarget target(std::size_t node) const {
    const NodePlan& there = nodes_[node];
    return {there.ssh_target, there.user, there.ssh_port != 0 ? there.ssh_port : default_port_};
  }

  SshClient client_;
  int default_port_ = 0;
};

/// Returns `env -u NAME ...` for what an srun must not read; empty if nothing in our environment would be an
/// option of srun.
std::vector<std::string> without_srun_options() {
  std::vector<std::string> words;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (is_srun_option(name)) words.insert(words.end(), {"-u", std::string(name)});
  }
  if (!words.empty()) words.insert(words.begin(), "env");
  return words;
}

class SrunStarter final : public NodeStarter {
 public:
  SrunStarter(const std::vector<NodePlan>& nodes, const RemoteOptions& options, const std::string& version,
              const agent::SignalState& signals)
      // srun tells signals by itself, and ends a step whose first process was ended by one.
      : NodeStarter(nodes, options, version, signals, false, {}) {}

  /// Each node is a server of its own, because slurmd lets everybody of its job in.
  std::string server(std::size_t node) const override { return nodes_[node].name; }

  StartFailure explain(std::size_t node, const StartEnd& end) const override {
    return explain_srun(end, nodes_[node].name, version_);
  }

 private:
  std::vector<std::string> arguments(std::size_t node) const override {
    std::vector<std::string> words = without_options_;
    try {
      const std::vector<std::string> srun = srun_arguments(nodes_[node].name, remote_.command);
      words.insert(words.end(), srun.begin(), srun.end());
    } catch (const std::invalid_argument& error) {
      throw UsageError(error.what());
    }
    return words;
  }

  std::vector<std::string> without_options_ = without_srun_options();
};

}  // namespace

std::unique_ptr<NodeStarter> make_ssh_starter(const std::vector<NodePlan>& nodes,
                                              const RemoteOptions& options, const std::string& version,
                                              const agent::SignalState& signals) {
  return std::make_unique<SshStarter>(nodes, options, version, signals);
}

std::unique_ptr<NodeStarter> make_srun_starter(const std::vector<NodePlan>& nodes,
                                               const RemoteOptions& options, const std::string& version,
                                               const agent::SignalState& signals) {
  return std::make_unique<SrunStarter>(nodes, options, version, signals);
}

}  // namespace muster::launcher
