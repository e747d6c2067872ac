// SPDX-License-Identifier: Apache-2.0
// One accepted connection of the store: a descriptor, a session, and the reads and writes between them. It
// knows no event loop.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/c10d/session.hpp"
#include "rendezvous/net/address.hpp"

#include <chrono>
#include <list>
#include <string>
#include <vector>

namespace muster::rendezvous {

class StoreConnection;

/// The memory that the connections of a store share.
class StoreBudget {
 public:
  /// Whether `asker` may take `bytes` more for a reply. May remove other connections, never `asker`.
  virtual bool room_for(StoreConnection& asker, std::size_t bytes) = 0;

 protected:
  ~StoreBudget() = default;
};

class StoreConnection final : private c10d::Session::Owner {
 public:
  enum class Result {
    good,
    ended,   ///< the peer closed or the connection broke
    broken,  ///< the peer broke the protocol or a limit; error() says how
  };

  /// `woken` collects the connections whose wait was ended by a request of another one. All arguments must
  /// outlive this object.
  StoreConnection(UniqueFd fd, const SocketAddress& peer, Store& store, StoreBudget& budget,
                  std::vector<StoreConnection*>& woken)
      : fd_(std::move(fd)), peer_(peer), budget_(budget), session_(store, *this), woken_(woken) {}

  /// Reads once and carries out the complete requests; replies stay in the session until flush().
  Result read();
  /// Sends as much as the socket takes.
  Result flush();

  /// Closes the socket, forgets a wait and gives all memory back; no other method may be called afterwards.
  void hang_up() {
    session_.abandon();
    fd_.reset();
  }

  bool has_output() const { return !session_.output().empty(); }

  int fd() const { return fd_.get(); }

  const SocketAddress& peer() const { return peer_; }

  const c10d::Session& session() const { return session_; }

  bool silent() const { return !session_.established() && !session_.inside_request(); }

  // The server that owns the connection keeps its notes in the following members.
  std::list<StoreConnection>::iterator self;
  std::chrono::steady_clock::time_point deadline;  ///< the time by which the first message must come
  std::list<StoreConnection*>::iterator pending;   ///< valid while `is_pending`
  std::size_t bytes_counted = 0;  ///< the bytes of this connection's memory that the server's budget counts
  bool is_pending = false;
  bool counted_legacy = false;
  bool kept_silent = false;
  bool wants_write = false;  ///< whether the socket is registered for writability
  bool dead = false;

 private:
  void output_ready() override { woken_.push_back(this); }

  bool room_for(std::size_t bytes) override { return budget_.room_for(*this, bytes); }

  UniqueFd fd_;
  SocketAddress peer_;
  StoreBudget& budget_;
  c10d::Session session_;
  std::vector<StoreConnection*>& woken_;
};

}  // namespace muster::rendezvous
