// SPDX-License-Identifier: Apache-2.0
// A port on the network: control connections (TLS) and a store. Includes Asio.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/server/listen/port_service.hpp"
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
  /// The job whose keys are accepted; none: the keys of every job (derive_job_secret).
  std::optional<std::string> job{};
  /// Finds clients that prove themselves in another way than by a key made of the job secret; empty: none.
  ClientResolver other_clients{};
  /// Called on the executor with lines about refused peers; empty: they go to the log.
  std::function<void(const std::string&)> warn{};
  /// Takes a connection from the listener as accept() does, so that tests can make it fail; empty: the kernel
  /// does.
  std::function<int(int listener, sockaddr* address, socklen_t* size)> accept{};
  /// The only addresses that may connect, whatever protocol they speak; empty: all.
  std::vector<Cidr> allow_from{};
  /// Whether the store's clients on this host must run under our uid.
  bool same_user_only = true;
  /// Whether the two rules above alone say whom the store serves: then its clients are torchrun's agents.
  bool store_by_rule = false;
  /// Without a secret: the reason why no TLS connection is served, for the log and as the answer.
  std::string no_control{};
  /// Counts the peers that have not proved yet who they are, for several ports together; null: for this port
  /// alone.
  std::shared_ptr<Gates> gates{};
};

struct ControlPortCounters {
  std::uint64_t accepted = 0;       ///< connections taken from the listener
  std::uint64_t dropped = 0;        ///< connections dropped at once, for too many strangers or descriptors
  std::uint64_t authenticated = 0;  ///< connections whose peer proved itself by TLS
  std::uint64_t admitted = 0;       ///< connections admitted to the store
  std::uint64_t refused = 0;        ///< connections refused after a look at them
  std::size_t strangers = 0;        ///< connections of strangers held now, by all ports with these gates
};

/// Takes connections from a listening socket, tells TLS from the store's protocol by the first byte without
/// reading it, and hands over the peers that it recognises. A thread of its own deals with strangers, so that
/// no known peer waits for their handshakes; `service` is called on the executor, whose thread makes and
/// destroys this object. `service` must outlive it.
class ControlPort {
 public:
  /// `listener`: a non-blocking socket. Without a secret the port serves a store alone.
  ControlPort(boost::asio::any_io_executor executor, UniqueFd listener, std::optional<Secret> secret,
              ControlPortOptions options, PortService& service);
  ~ControlPort();
  ControlPort(const ControlPort&) = delete;
  ControlPort& operator=(const ControlPort&) = delete;

  /// The address on which the port listens.
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
