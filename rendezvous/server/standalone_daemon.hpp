// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  /// Peers on this host must run under our uid (--store-admission user). False: off.
  bool same_user_only = true;
};

/// `muster rendezvous`: a store that runs alone until SIGTERM or SIGINT. Prints one line
/// {"endpoint":"HOST:PORT"} on stdout when it listens, diagnostics through the log. Blocks; call it from the
/// main thread. Returns the exit code: 0 after a signal, 2 for options it does not accept, 125 if it cannot
/// listen.
int run_standalone_daemon(const StandaloneOptions& options);

}  // namespace muster::rendezvous
