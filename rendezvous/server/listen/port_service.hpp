// SPDX-License-Identifier: Apache-2.0
// The service behind a port on the network: the coordinator of one job, or a daemon with many. Includes Asio.
#pragma once

#include "rendezvous/server/listen/control_session.hpp"
#include "rendezvous/server/listen/vouching.hpp"
#include "rendezvous/server/store/opened_store.hpp"
#include "rendezvous/wire/byte_stream.hpp"

#include <memory>

namespace muster::rendezvous {

/// The calls that a port makes. Used on the executor's thread only, except where a method says otherwise.
class PortService {
 public:
  /// Serves a new control connection.
  virtual void add(std::unique_ptr<ByteStream> stream, PeerPlace place) = 0;

  /// The store whose clients come through the port; null if there is none now. Valid until the next event.
  virtual const OpenedStore* running_store() const = 0;

  /// Finds out whose a store client's connection is; `done` is called once, at the latest after
  /// kVouchTimeout, and not after the end of the service. `here`: the connection comes from this host.
  virtual void vouch(const SocketAddress& peer, const SocketAddress& local, bool here,
                     Vouching::Done done) = 0;

  /// Whether a node is connected from the address of `peer`. Addresses that nodes only state do not count.
  /// From any thread.
  virtual bool knows(const SocketAddress& peer) const = 0;

  /// Whether vouch() could end well for a connection from the address of `peer`; false is final. From any
  /// thread.
  virtual bool could_vouch(const SocketAddress& peer) const = 0;

  /// Whether there is a running_store(). From any thread.
  virtual bool has_running_store() const = 0;

 protected:
  ~PortService() = default;
};

}  // namespace muster::rendezvous
