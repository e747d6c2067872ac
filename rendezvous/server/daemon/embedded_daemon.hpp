// SPDX-License-Identifier: Apache-2.0
// The rendezvous daemon of a job: one local control connection, one store at a time, and for a job on many
// machines one port for the store and the control connections of the other nodes.
#pragma once

#include "rendezvous/protocol/job_limits.hpp"
#include "rendezvous/tls/secret.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::rendezvous {

struct EmbeddedOptions {
  /// One end of a connected stream socket pair whose other end the agent holds. Taken over.
  int control_fd = -1;
  std::string run_id = "none";
  /// The version of the software, for texts.
  std::string version{};
  JobLimits limits{};
  /// Where the stores listen. Not used with `network`.
  StoreSpec store{};

  /// The options of a job on many machines.
  struct Network {
    /// A descriptor that becomes readable once no process looks after this one any more (a pidfd of its
    /// guardian). Then stderr is closed here: an ssh session lasts as long as a process holds its streams,
    /// and the launcher learns of the guardian's end by the end of that session. Taken over. -1: no guardian
    /// is watched.
    int guardian_pidfd = -1;
    /// A socket that listens on one address, non-blocking (open_listen_socket). Taken over. Control
    /// connections (TLS) and the store of the present round share it.
    int listen_fd = -1;
    /// The secret from which every client's key is derived.
    std::shared_ptr<const Secret> job_secret;
    /// The nodes' names in the order of their places, for texts about missing nodes; may be empty.
    std::vector<std::string> expected_nodes{};
    /// Whether processes of our user on hosts that share a munge key may join without a key of the job.
    bool accept_munge = false;
  };

  std::optional<Network> network;
};

/// Runs the daemon. With `network` it serves until the local agent and all other nodes have left and been
/// told; otherwise until the agent closes its end. Then it closes everything and returns 0. Returns 125 (and
/// logs why) when it cannot serve at all. Call in a process of its own, from its only thread. Errors that
/// concern the agent (a busy store port) are sent to it as an error of its join(), not logged.
int run_embedded_daemon(EmbeddedOptions options);

}  // namespace muster::rendezvous
