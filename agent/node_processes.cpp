// SPDX-License-Identifier: Apache-2.0
#include "agent/node_processes.hpp"

#include "agent/core/node_traits.hpp"
#include "agent/node_agent.hpp"
#include "agent/process/guardian.hpp"
#include "agent/process/job_mark.hpp"
#include "agent/process/link_frames.hpp"
#include "agent/process/log_directory.hpp"
#include "agent/process/signal_state.hpp"
#include "agent/process/stop_file.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/net/interface_choice.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/daemon/embedded_daemon.hpp"
#include "rendezvous/server/listen_socket.hpp"
#include "rendezvous/tls/peer_identity.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <utility>

namespace muster::agent {

namespace {

/// Makes this process the one that serves the store: gives it its name, leaves it deaf to signals for the
/// whole job, and returns what it serves as the job wants it. `control_fd` is its end of the connection with
/// the agent.
rendezvous::EmbeddedOptions begin_store_process(const AgentSpec& spec, int control_fd) {
  ::prctl(PR_SET_NAME, "muster:store");
  // The store ends with the job. A signal for the whole job (systemctl stop, a batch system) is for the
  // workers.
  ignore_signals_of_others();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  rendezvous::EmbeddedOptions options;
  options.control_fd = control_fd;
  options.run_id = spec.run_id;
  options.limits = spec.limits;
  options.store = spec.store;
  return options;
}

/// Lets go of stdin and stdout: the user's must not stay open because of a process that does not use them.
void drop_standard_input_and_output() {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return;
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(null.get(), STDOUT_FILENO);
}

using rendezvous::Secret;

constexpr std::chrono::seconds kNoticeTimeout{1};

/// Opens the coordinator's socket on an address that the other nodes can reach.
rendezvous::ListenSocket open_socket_of(const StartedNode& started, const std::string& interface_name) {
  const std::string address = interface_name.empty() ? rendezvous::address_towards(started.peers)
                                                     : rendezvous::address_of_interface(interface_name);
  return rendezvous::open_listen_socket(address, started.listen_port, true, false);
}

/// Opens the coordinator's socket on the node of a peer. Its fd is empty if this node is to be a client after
/// all.
rendezvous::ListenSocket open_socket_of(PeerNode& peer, NodeSpec& node) {
  try {
    return rendezvous::open_listen_socket(peer.listen_host, node.coordinator_port, true, false);
  } catch (const rendezvous::PortInUse& error) {
    // Where two launchers of one job run on one host, only the first can listen; the second finds out by
    // dialling whose port it is. To dial a program that is none of ours would be in vain.
    const std::string& holder = error.holder_name();
    const bool may_be_ours = holder.empty() || holder.starts_with("muster");
    if (!peer.hosting_inferred || !may_be_ours) throw;
    node.coordinator = false;
    peer.port_trouble = error.what();
    return {};
  }
}

rendezvous::ListenSocket open_coordinator_socket(NodeSpec& node) {
  if (!node.coordinator) return {};
  if (auto* peer = std::get_if<PeerNode>(&node.form)) return open_socket_of(*peer, node);
  return open_socket_of(std::get<StartedNode>(node.form), node.interface_name);
}

/// Closes descriptors that only another of our processes may hold, and which must not stay open because of
/// this one.
void close_all(std::initializer_list<int> descriptors) {
  for (const int fd : descriptors)
    if (fd >= 0) ::close(fd);
}

int daemon_main(const NodeProcesses& node, int control_fd, int listen_fd, int guardian_pidfd) {
  const AgentSpec& spec = node.spec;
  rendezvous::EmbeddedOptions options = begin_store_process(spec, control_fd);
  if (!NodeTraits(spec).networked) return rendezvous::run_embedded_daemon(std::move(options));
  rendezvous::guard_process(rendezvous::ProcessFiles::closed);
  rendezvous::EmbeddedOptions::Network network;
  network.guardian_pidfd = guardian_pidfd;
  network.listen_fd = listen_fd;
  network.job_secret = node.job_secret;
  if (const auto* started = std::get_if<StartedNode>(&spec.node.form))
    network.expected_nodes = started->expected_nodes;
  else
    network.accept_munge = std::get<PeerNode>(spec.node.form).munge;
  options.network = std::move(network);
  return rendezvous::run_embedded_daemon(std::move(options));
}

/// Tells the launcher what the guardian notices: through notice_fd or over the link to a distant one, on
/// which only the agent writes as long as it lives, maybe in the middle of a message. Until then the
/// guardian's lines go to stderr, which such a launcher reads, too.
void write_notice(const NodeProcesses& node, LinkMessage::Notice kind, const std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + kNoticeTimeout;
  const bool over_link = node.notice_fd < 0;
  try {
    if (over_link && kind != LinkMessage::agent_lost)
      return write_bytes(STDERR_FILENO, "muster: warning: " + text + "\n", deadline);
    write_link_message(over_link ? node.link_out : node.notice_fd, {LinkMessage::Kind::notice, kind, text},
                       deadline);
  } catch (const std::exception&) {
    // Nobody listens. A distant launcher hears from the coordinator that this node is gone.
  }
}

/// Ends and names the processes that an earlier job left on this host when all who knew of it were killed,
/// and removes its files. Our other processes start meanwhile.
void say_orphans() {
  const std::string names = list_processes(end_orphans());
  if (!names.empty()) log_warning("ended processes that a job before this one had left: " + names);
  remove_left_stop_folders();
}

/// Overwrites every key but `keep` of which this process has a copy, even those that others may still refer
/// to.
void drop_keys(NodeProcesses& node, const Secret* keep) {
  node.job_secret.reset();
  node.key.reset();
  rendezvous::forget_secrets_except(keep != nullptr ? keep->bytes().data() : nullptr);
}

std::shared_ptr<const Secret> key_of(const NodeProcesses& node) {
  if (node.key) return node.key;
  return std::make_shared<const Secret>(derive_key(*node.job_secret, identity_of(node.spec)));
}

GuardianOptions guardian_options(const NodeProcesses& node, int go_on_fd) {
  GuardianOptions options;
  const NodeTraits traits(node.spec);
  options.launcher_pidfd = node.launcher_pidfd;
  options.notice = [&node](LinkMessage::Notice kind, const std::string& text) {
    write_notice(node, kind, text);
  };
  options.of_node = traits.of_node;
  options.shutdown_timeout = node.spec.shutdown_timeout;
  options.signals = node.signals;
  if (!traits.networked) return options;
  options.stopped_at_most = rendezvous::kDeadAfter;
  options.store_stopped_at_most = rendezvous::kDeadAfter - 2 * rendezvous::kHeartbeatInterval;
  if (!traits.distant_launcher) return options;
  options.lifeline_fd = node.link_in;
  options.go_on_fd = go_on_fd;
  return options;
}

bool has_ended(int pidfd) {
  pollfd process{pidfd, POLLIN, 0};
  return ::poll(&process, 1, 0) > 0;
}

/// Removes an empty log directory in place of an agent that is gone, or of the launcher on this host that is.
void tidy_logs(const NodeProcesses& node) {
  const OutputSpec& output = node.spec.output;
  if (!output.log_dir_is_temporary || output.log_dir.empty()) return;
  if (NodeTraits(node.spec).distant_launcher)
    remove_empty_log_directory(node_log_directory(output.log_dir, node.spec.node.name));
  else if (has_ended(node.launcher_pidfd))
    remove_empty_directories(output.log_dir);
}

}  // namespace

int run_node_processes(NodeProcesses node) {
  const NodeTraits traits(node.spec);
  // A job without a network has no key that could leak.
  if (traits.networked) rendezvous::guard_process(rendezvous::ProcessFiles::closed);
  NodeSpec& place = node.spec.node;
  if (place.incarnation == 0 && traits.networked)
    place.incarnation = random_number() | 1U;  // 0 means that there is none
  rendezvous::ListenSocket listener = open_coordinator_socket(place);
  if (listener.fd) {
    place.coordinator_host = listener.address.host();
    place.coordinator_port = listener.address.port();
    if (node.listening) node.listening({place.coordinator_host, place.coordinator_port});
  }
  int go_on[2] = {-1, -1};
  if (traits.distant_launcher && ::pipe2(go_on, O_CLOEXEC) != 0) throw_errno("pipe");

  GuardianOptions options = guardian_options(node, go_on[0]);
  ProcessMain run_daemon;
  if (listener.fd) {
    // The other nodes end their workers, are told the verdict and report before the daemon goes.
    options.store_may_outlive = node.spec.shutdown_timeout + rendezvous::kDaemonAtMost;
  }
  if (listener.fd || !traits.networked) {
    run_daemon = [&](int control_fd, int guardian_pidfd) {
      close_all({node.link_in, go_on[0], go_on[1], node.launcher_pidfd, node.notice_fd});
      if (node.link_out != node.link_in) ::close(node.link_out);
      drop_standard_input_and_output();
      return daemon_main(node, control_fd, listener.fd.release(), guardian_pidfd);
    };
  }
  const auto run_agent = [&](int control_fd, int guardian_pidfd) {
    // Workers open their status files in this process, through /proc.
    if (traits.networked) rendezvous::guard_process(rendezvous::ProcessFiles::shared);
    listener.fd.reset();
    close_all({go_on[0], node.launcher_pidfd, node.notice_fd});
    const std::shared_ptr<const Secret> key = control_fd < 0 ? key_of(node) : nullptr;
    drop_keys(node, key.get());
    node.key = key;
    return run_node_agent({node, control_fd, guardian_pidfd, go_on[1]});
  };
  const auto after_start = [&] {
    listener.fd.reset();
    close_all({go_on[1]});
    drop_keys(node, nullptr);
    if (traits.networked) say_orphans();
    if (traits.distant_launcher) return;
    // The link's end tells the launcher that the agent is gone.
    ::close(node.link_in);
    if (node.link_out != node.link_in) ::close(node.link_out);
    drop_standard_input_and_output();
  };
  const int code = run_guardian(options, run_daemon, run_agent, after_start);
  tidy_logs(node);
  return code;
}

}  // namespace muster::agent
