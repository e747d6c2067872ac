// SPDX-License-Identifier: Apache-2.0
// The rendezvous daemon of a job: one local control connection, one store at a time, and for a job of many
// machines one port for the control connections of the others and the store.
#pragma once

#include "rendezvous/core/round.hpp"
#include "rendezvous/protocol/ids.hpp"
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
  /// Not used with `network`.
  StoreSpec store{};

  /// What a job of many machines needs.
  struct Network {
    /// Readable once nobody looks after this process any more (a pidfd of its guardian). Its stderr is closed
    /// then: an ssh session lasts as long as somebody holds its streams, and the launcher learns of the
    /// guardian's end by the end of that session. Taken over. -1: nobody is watched.
    int guardian_pidfd = -1;
    /// Listening on one address, non-blocking (open_listen_socket). Taken over. Control connections (TLS) and
    /// the store of the present round share it.
    int listen_fd = -1;
    /// The secret from which every client's key is derived.
    std::shared_ptr<const Secret> job_secret;
    /// The nodes' names in the order of their places, to tell who is missing; may be empty.
    std::vector<std::string> expected_nodes{};
    /// Processes of our user on hosts that share a munge key may join without a key of the job.
    bool accept_munge = false;
  };

  std::optional<Network> network;
};

/// With `network`: serves until the local agent and all other nodes have left and been told. Else serves
/// until the agent closes its end; then closes everything and returns 0. Returns 125 (and logs why) when it
/// cannot serve at all. Call in a process of its own, from its only thread. What concerns the agent (a busy
/// store port) is sent to it as an error of its join(), not logged.
int run_embedded_daemon(EmbeddedOptions options);

}  // namespace muster::rendezvous
