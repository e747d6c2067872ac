// SPDX-License-Identifier: Apache-2.0
// Prepares this host's node of a job that somebody started on every host, and decides where its coordinator
// listens.
#pragma once

#include "agent/node_processes.hpp"
#include "launcher/core/job_spec.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

/// The addresses where the coordinator of a peer-started job may listen, as this machine sees them. All are
/// numeric.
struct ListenChoice {
  /// The addresses that the endpoint's host stands for here; empty if it does not resolve.
  std::vector<std::string> endpoint;
  /// Whether the endpoint is written as a loopback address, or as "localhost": then the nodes are all here.
  bool endpoint_is_loopback = false;
  /// This machine's addresses, loopback last.
  std::vector<std::string> own;
  /// --local-addr if it is an address of this machine, and the address of the default route; empty if there
  /// is none.
  std::string local_addr;
  std::string default_route;
};

/// Returns the one address to listen on. A name of this machine may stand for 127.0.1.1 here (Debian's
/// /etc/hosts) and for the real address everywhere else, or for an address that only a router knows: then it
/// is the address that --local-addr or the default route says. Pure.
std::string choose_listen_address(const ListenChoice& choice);

/// Asks the machine for the address to listen on. `interface_name` (--interface) beats everything. Throws
/// LaunchError.
std::string listen_address(const std::string& endpoint_host, const std::string& interface_name,
                           const std::string& local_addr);

/// Returns this host's part of the job, with its key. Decides where the coordinator listens, if that runs
/// here. Throws LaunchError.
agent::NodeProcesses prepare_peer_node(const JobSpec& job);

}  // namespace muster::launcher
