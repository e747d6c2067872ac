// SPDX-License-Identifier: Apache-2.0
#include "agent/started_node.hpp"

#include "agent/node_processes.hpp"
#include "agent/process/link_frames.hpp"
#include "agent/process/signal_state.hpp"
#include "rendezvous/base/allowance.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/net/interface_choice.hpp"
#include "rendezvous/tls/peer_identity.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace muster::agent {
namespace {

using rendezvous::Secret;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kWriteTimeout{5};

void close_range(unsigned first, unsigned last, unsigned flags) {
  if (first > last) return;
  if (::syscall(SYS_close_range, first, last, flags) == 0) return;
  // Linux before 5.9 has no close_range(). Descriptors above this number are as good as never inherited.
  constexpr unsigned kHighest = 65536;
  for (unsigned fd = first; fd <= std::min(last, kHighest); ++fd) ::close(static_cast<int>(fd));
}

/// Addresses of the two ends of the SSH connection that led here; empty if none did. A batch system may bring
/// SSH_CONNECTION along from the host of its user's login: then the server's address is not ours.
struct SshEnds {
  std::string client;
  std::string server;
};

SshEnds ssh_ends(const std::vector<std::string>& ours) {
  const char* connection = std::getenv("SSH_CONNECTION");
  if (connection == nullptr) return {};
  SshEnds ends;
  std::string port;
  std::istringstream words(connection);
  words >> ends.client >> port >> ends.server;
  return std::find(ours.begin(), ours.end(), ends.server) != ours.end() ? ends : SshEnds{};
}

/// Returns this host's addresses: first the one where the SSH client came in, since other nodes probably can
/// as well; then all others.
std::vector<std::string> addresses_entrance_first() {
  std::vector<std::string> addresses = rendezvous::local_addresses();
  const auto entrance = std::find(addresses.begin(), addresses.end(), ssh_ends(addresses).server);
  if (entrance != addresses.end()) std::rotate(addresses.begin(), entrance, entrance + 1);
  return addresses;
}

/// Adds the launcher to those who must reach the coordinator: it talks to the coordinator as well, so an only
/// node listens where the launcher can reach it.
void add_launcher_to_peers(NodeSpec& node) {
  const std::string launcher = ssh_ends(rendezvous::local_addresses()).client;
  // The interface of a link-local address has another name on another host.
  const bool link_local = launcher.find('%') != std::string::npos || launcher.starts_with("fe80:");
  auto* started = std::get_if<StartedNode>(&node.form);
  if (started != nullptr && node.coordinator && !launcher.empty() && !link_local)
    started->peers.push_back(launcher);
}

/// Counts the device files of the driver: to load the driver's library would make every start slower.
int count_gpus() {
  int count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/dev", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.size() > 6 && name.starts_with("nvidia") &&
        name.find_first_not_of("0123456789", 6) == std::string::npos)
      ++count;
  }
  return count;
}

NodeHello describe_this_node(const std::string& version) {
  NodeHello hello;
  hello.version = version;
  hello.host = host_name();
  hello.pid = ::getpid();
  hello.addresses = addresses_entrance_first();
  hello.cpus = read_allowance().processors;
  hello.gpus = count_gpus();
  return hello;
}

void greet(int fd, const std::string& version) {
  const auto deadline = Clock::now() + kWriteTimeout;
  write_bytes(fd, link_greeting(version), deadline);
  write_link_message(fd, {LinkMessage::Kind::hello, 0, to_json(describe_this_node(version))}, deadline);
}

LinkMessage expect(int fd, LinkMessage::Kind kind, std::string_view what) {
  LinkMessage message;
  do {
    message = read_link_message(fd, Clock::now() + kLauncherSilentAtMost, what);
  } while (message.kind == LinkMessage::Kind::status);
  if (message.kind != kind)
    throw std::runtime_error("the launcher sent something else where the " + std::string(what) +
                             " was expected; are both of the same version?");
  return message;
}

std::shared_ptr<const Secret> secret_at(std::string_view bytes, std::size_t index) {
  if (bytes.size() < (index + 1) * Secret::kBytes) return nullptr;
  return std::make_shared<const Secret>(
      Secret::from_bytes(bytes.substr(index * Secret::kBytes, Secret::kBytes)));
}

/// Returns the link's descriptors, moved away from 0 and 1, where a stray print would end up in the link.
/// Nothing else that was inherited stays open.
std::pair<int, int> take_link(const StartedNodeOptions& options) {
  constexpr int kAside = 64;
  const int in = ::fcntl(options.in_fd, F_DUPFD_CLOEXEC, kAside);
  const int out = options.out_fd == options.in_fd ? in : ::fcntl(options.out_fd, F_DUPFD_CLOEXEC, kAside);
  if (in < 0 || out < 0) throw_errno("dup");
  close_range(3, static_cast<unsigned>(std::min(in, out)) - 1, 0);
  close_range(static_cast<unsigned>(std::max(in, out)) + 1, ~0U, 0);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) throw_errno("/dev/null");
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(null.get(), STDOUT_FILENO);
  return {in, out};
}

int serve(const StartedNodeOptions& options, int in, int out) {
  greet(out, options.version);
  // The first use of OpenSSL takes milliseconds, which are free while the launcher waits for other nodes. The
  // processes that are forked later need not repeat it.
  (void)rendezvous::derive_key(rendezvous::Secret::random(), {});
  LinkMessage key = expect(in, LinkMessage::Kind::key, "key");
  NodeProcesses node;
  node.key = secret_at(key.body, 0);
  node.job_secret = secret_at(key.body, 1);
  rendezvous::cleanse(key.body.data(), key.body.size());
  node.spec = agent_spec_from_json(expect(in, LinkMessage::Kind::spec, "job").body);
  add_launcher_to_peers(node.spec.node);
  if (!node.key || (node.spec.node.coordinator && !node.job_secret))
    throw std::runtime_error("the launcher sent too few keys");
  node.version = options.version;
  node.link_in = in;
  node.link_out = out;
  node.signals = options.signals;
  node.listening = [out](const LinkEndpoint& endpoint) {
    write_link_message(out, {LinkMessage::Kind::listening, 0, to_json(endpoint)},
                       Clock::now() + kWriteTimeout);
  };
  return run_node_processes(std::move(node));
}

}  // namespace

int run_started_node(const StartedNodeOptions& options) {
  int out = options.out_fd;
  try {
    ::prctl(PR_SET_NAME, "muster:guardian");
    ignore_signals_of_others();
    rendezvous::guard_process(rendezvous::ProcessFiles::closed);
    const auto [link_in, link_out] = take_link(options);
    out = link_out;
    return serve(options, link_in, link_out);
  } catch (const std::exception& error) {
    try {
      write_link_message(out, {LinkMessage::Kind::notice, LinkMessage::in_words, error.what()},
                         Clock::now() + kWriteTimeout);
    } catch (const std::exception&) {
      // Nobody listens any more.
    }
    return kExitLauncherFailure;
  }
}

}  // namespace muster::agent
