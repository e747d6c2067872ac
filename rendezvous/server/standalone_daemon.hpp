// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/protocol/message.hpp"
#include "rendezvous/tls/secret.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::rendezvous {

struct StandaloneOptions {
  /// "HOST:PORT"; HOST is an address or name of this machine ([...] around IPv6), port 0 picks a free one.
  std::string listen = "127.0.0.1:0";
  /// Addresses or CIDR blocks that may connect. Needed beyond loopback. Empty: loopback only.
  std::vector<std::string> allow_from;
  /// Permits a wildcard address (0.0.0.0, ::).
  bool listen_any = false;
  /// Clients of the store on this host must run under our uid (--store-admission user). False: off.
  bool same_user_only = true;
  /// Who has it may let the daemon host jobs. None: it hosts no job.
  std::optional<Secret> key;
  /// The key is one that everybody knows (--insecure-no-secret).
  bool key_is_public = false;
  /// This muster, for texts.
  std::string version;
};

/// `muster rendezvous`: hosts jobs of `muster run`, and a store for torchrun's agents, on one port, until
/// SIGTERM or SIGINT; then the jobs' nodes are told first. Prints one line {"endpoint":"HOST:PORT"} on stdout
/// when it listens, diagnostics through the log. Blocks; call it from the main thread, with SIGPIPE ignored.
/// Returns the exit code: 0 after a signal, 2 for options it does not accept, 125 if it cannot listen.
int run_standalone_daemon(StandaloneOptions options);

struct DaemonReport {
  DaemonStatus daemon;
  std::vector<JobStatus> jobs;
};

/// `muster rendezvous --status`. Blocks for 10 s at most. Throws CoordinatorError as connect_tls does.
DaemonReport ask_daemon(const Endpoint& where, const Secret& key, const std::string& version);

}  // namespace muster::rendezvous
