// SPDX-License-Identifier: Apache-2.0
// The daemon of `muster rendezvous`, which hosts jobs and a store on one port.
#pragma once

#include "rendezvous/tls/secret.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::rendezvous {

struct StandaloneOptions {
  /// "HOST:PORT"; HOST is an address or name of this machine ([...] around IPv6), port 0 picks a free one.
  std::string listen = "127.0.0.1:0";
  /// The addresses or CIDR blocks that may connect. Needed beyond loopback. Empty: loopback only.
  std::vector<std::string> allow_from;
  /// Whether a wildcard address (0.0.0.0, ::) is permitted.
  bool listen_any = false;
  /// Whether clients of the store on this host must run under our uid (--store-admission user). False: off.
  bool same_user_only = true;
  /// The key with which a peer may let the daemon host jobs. None: the daemon hosts no job.
  std::optional<Secret> key;
  /// Whether everybody knows the key (--insecure-no-secret).
  bool key_is_public = false;
  /// The version of this muster, for texts.
  std::string version;
};

/// `muster rendezvous`: hosts jobs of `muster run`, and a store for torchrun's agents, on one port, until
/// SIGTERM or SIGINT; then the jobs' nodes are told first. Prints one line {"endpoint":"HOST:PORT"} on stdout
/// when it listens, diagnostics through the log. Blocks; call it from the main thread, with SIGPIPE ignored.
/// Returns the exit code: 0 after a signal, 2 for options it does not accept, 125 if it cannot listen.
int run_standalone_daemon(StandaloneOptions options);

}  // namespace muster::rendezvous
