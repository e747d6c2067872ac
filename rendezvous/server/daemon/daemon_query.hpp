// SPDX-License-Identifier: Apache-2.0
// What a daemon says of itself and its jobs.
#pragma once

#include "rendezvous/protocol/message.hpp"
#include "rendezvous/tls/secret.hpp"

#include <string>
#include <vector>

namespace muster::rendezvous {

struct DaemonReport {
  DaemonStatus daemon;
  std::vector<JobStatus> jobs;
};

/// Asks a daemon for its state (`muster rendezvous --status`). Blocks for 10 s at most. Throws
/// CoordinatorError as connect_tls does.
DaemonReport ask_daemon(const Endpoint& where, const Secret& key, const std::string& version);

}  // namespace muster::rendezvous
