// SPDX-License-Identifier: Apache-2.0
// A port on the network: control connections (TLS) and a store. Includes Asio.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/server/port_service.hpp"
#include "rendezvous/tls/peer_identity.hpp"
#include "rendezvous/tls/secret.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::rendezvous {

class LoopThread;
struct Gates;

struct ControlPortOptions {
  /// The job whose keys are accepted; none: every job's (derive_job_secret).
  std::optional<std::string> job{};
  /// Clients that prove themselves in another way than by a key made of the job secret; empty: none.
  ClientResolver other_clients{};
  /// Gets lines about peers that were refused, on the executor; empty: the log.
  std::function<void(const std::string&)> warn{};
  /// Takes a connection from the listener as accept() does, for tests of its failures; empty: the kernel.
  std::function<int(int listener, sockaddr* address, socklen_t* size)> accept{};
  /// Nobody else may connect, whatever it speaks; empty: everybody may.
  std::vector<Cidr> allow_from{};
  /// The store's clients on this host must run under our uid.
  bool same_user_only = true;
  /// Nobody but the two rules above says who is served by the store: its clients are torchrun's agents.
  bool store_by_rule = false;
  /// Without a secret: why nobody who speaks TLS is served, for the log and as the answer.
  std::string no_control{};
  /// Counts those who have not proved yet who they are, together with other ports; null: this port's alone.
  std::shared_ptr<Gates> gates{};
};

struct ControlPortCounters {
  std::uint64_t accepted = 0;       ///< connections taken from the listener
  std::uint64_t dropped = 0;        ///< at once, because there were too many strangers or descriptors
  std::uint64_t authenticated = 0;  ///< by TLS
  std::uint64_t admitted = 0;       ///< to the store
  std::uint64_t refused = 0;        ///< after a look at them
  std::size_t strangers = 0;        ///< held now, by all ports with these gates
};

/// Takes connections from a listening socket, tells TLS from the store's protocol by the first byte without
/// reading it, and hands over whom it knows. Strangers are dealt with in a thread of its own, so that nobody
/// who is in waits for their handshakes; `service` is spoken to on the executor, whose thread makes and
/// destroys this. `service` must outlive it.
class ControlPort {
 public:
  /// `listener`: non-blocking. Without a secret it is the port of a store alone.
  ControlPort(boost::asio::any_io_executor executor, UniqueFd listener, std::optional<Secret> secret,
              ControlPortOptions options, PortService& service);
  ~ControlPort();
  ControlPort(const ControlPort&) = delete;
  ControlPort& operator=(const ControlPort&) = delete;

  /// The address on which it listens.
  const SocketAddress& address() const;
  ControlPortCounters counters() const;
  /// Takes no more connections. Idempotent.
  void close();

 private:
  class Impl;
  std::unique_ptr<LoopThread> thread_;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::rendezvous
