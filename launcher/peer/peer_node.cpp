// SPDX-License-Identifier: Apache-2.0
#include "launcher/peer/peer_node.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/peer/key_file.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/munge/munge.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/net/interface_choice.hpp"
#include "rendezvous/tls/peer_identity.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

namespace muster::launcher {
namespace {

constexpr int kAnyPort = 0;
/// An address of a network that is reserved for documents (RFC 5737): the way to it is the default route.
constexpr const char* kFarAway = "192.0.2.1";

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::vector<std::string> numeric(const std::string& host) {
  std::vector<std::string> found;
  try {
    for (const rendezvous::SocketAddress& address : rendezvous::resolve(host, kAnyPort))
      found.push_back(address.host());
  } catch (const std::exception&) {
    // Perhaps only the other hosts know this name.
  }
  return found;
}

std::string default_route() {
  try {
    return rendezvous::address_towards({kFarAway});
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

std::string choose_listen_address(const ListenChoice& choice) {
  const auto ours = [&choice](const std::string& address) {
    return is_loopback(address) ||
           std::find(choice.own.begin(), choice.own.end(), address) != choice.own.end();
  };
  for (const std::string& address : choice.endpoint)
    if (ours(address) && (!is_loopback(address) || choice.endpoint_is_loopback)) return address;
  if (choice.endpoint_is_loopback) return "127.0.0.1";
  for (const std::string& address : {choice.local_addr, choice.default_route})
    if (!address.empty() && ours(address) && !is_loopback(address)) return address;
  return choice.own.empty() ? "127.0.0.1" : choice.own.front();
}

std::string listen_address(const std::string& endpoint_host, const std::string& interface_name,
                           const std::string& local_addr) {
  try {
    if (!interface_name.empty()) return rendezvous::address_of_interface(interface_name);
    ListenChoice choice;
    choice.endpoint_is_loopback = endpoint_host == "localhost" || is_loopback(endpoint_host);
    choice.endpoint = numeric(endpoint_host);
    choice.own = rendezvous::local_addresses();
    if (!local_addr.empty()) {
      const auto given = numeric(local_addr);
      if (!given.empty()) choice.local_addr = given.front();
    }
    choice.default_route = default_route();
    return choose_listen_address(choice);
  } catch (const std::runtime_error& error) {
    throw LaunchError(kExitUsage, error.what());
  }
}

namespace {

FileKey key_of(const PeerOptions& peer) {
  if (!peer.secret_file.empty()) return read_key_file(peer.secret_file);
  return own_key(home_directory());
}

/// Whether munge says who we are: in a job of Slurm, which trusts munge with everything, unless a key was
/// chosen.
bool munge_proves_us(const PeerOptions& peer) {
  if (!peer.secret_file.empty() || std::getenv("SLURM_JOB_ID") == nullptr) return false;
  std::string reason;
  const bool there = rendezvous::Munge::load(reason).has_value();
  if (!there) log_info("munge is not used: " + reason);
  return there;
}

rendezvous::Secret key_or_munge(const PeerOptions& peer, agent::PeerNode& place) {
  try {
    FileKey file = key_of(peer);
    place.key_source = file.path;
    return std::move(file.secret);
  } catch (const LaunchError& error) {
    if (!place.munge) throw;
    log_info(std::string(error.what()) + "; munge is used instead");
    return rendezvous::Secret::random();
  }
}

}  // namespace

agent::NodeProcesses prepare_peer_node(const JobSpec& job) {
  rendezvous::guard_process(rendezvous::ProcessFiles::closed);
  agent::NodeProcesses node;
  node.spec = job.agent;
  const std::string& meeting = node.spec.node.coordinator_host;
  auto& place = std::get<agent::PeerNode>(node.spec.node.form);
  rendezvous::Secret key = no_secret();
  if (job.peer.no_secret) {
    log_warning("--insecure-no-secret: whoever can reach " + meeting + " port " +
                std::to_string(node.spec.node.coordinator_port) + " can join job '" + job.agent.run_id +
                "' and run programs as this user");
  } else {
    place.munge = munge_proves_us(job.peer);
    key = key_or_munge(job.peer, place);
  }
  node.job_secret = std::make_shared<const rendezvous::Secret>(derive_job_secret(key, job.agent.run_id));
  if (node.spec.node.coordinator) {
    place.listen_host = listen_address(meeting, node.spec.node.interface_name, node.spec.node.local_addr);
    if (place.listen_host != meeting)
      log_info("the coordinator listens on " + place.listen_host + " (" + job.peer.endpoint_given + ")");
  }
  return node;
}

}  // namespace muster::launcher
