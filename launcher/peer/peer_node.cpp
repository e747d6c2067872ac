// SPDX-License-Identifier: Apache-2.0

#include "launcher/peer/peer_node.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/peer/key_file.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/munge/munge.hpp"
#include "rendezvous/tls/peer_identity.hpp"

#include <cstdlib>
#include <string>
#include <utility>

namespace muster::launcher {
namespace {

FileKey key_of(const PeerOptions& peer) {
  if (!peer.secret_file.empty()) return read_key_file(peer.secret_file);
  return own_key(home_directory());
}

/// In a job of Slurm, which trusts munge with everything, and unless a key was chosen.
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
