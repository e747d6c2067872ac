// SPDX-License-Identifier: Apache-2.0
// One accepted connection: a descriptor, a session, and the reads and writes between them. Knows no event
// loop.
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

/// What the connections of a store share.
class StoreBudget {
 public:
  /// Whether `asker` may take that many bytes more for a reply. May remove other connections, never `asker`.
  virtual bool room_for(StoreConnection& asker, std::size_t bytes) = 0;

 protected:
  ~StoreBudget() = default;
};

class StoreConnection final : private c10d::Session::Owner {
 public:
  enum class Result {
    good,
    ended,   ///< the peer closed or the connection broke
    broken,  ///< the peer did what it must not; error() says what
  };

  /// `woken` collects connections whose wait another one's request ended. All must outlive this object.
  StoreConnection(UniqueFd fd, const SocketAddress& peer, Store& store, StoreBudget& budget,
                  std::vector<StoreConnection*>& woken)
      : fd_(std::move(fd)), peer_(peer), budget_(budget), session_(store, *this), woken_(woken) {}

  /// Reads once and carries out the whole requests; replies stay in the session until flush().
  Result read();
  /// Sends what the socket takes.
  Result flush();

  /// Closes the socket, forgets a wait and gives all memory back; nothing else may be called afterwards.
  void hang_up() {
    session_.abandon();
    fd_.reset();
  }

  bool has_output() const { return !session_.output().empty(); }

  int fd() const { return fd_.get(); }

  const SocketAddress& peer() const { return peer_; }

  const c10d::Session& session() const { return session_; }

  bool silent() const { return !session_.established() && !session_.inside_request(); }

  // Notes of the server that owns it.
  std::list<StoreConnection>::iterator self;
  std::chrono::steady_clock::time_point deadline;  ///< for the first message
  std::list<StoreConnection*>::iterator pending;   ///< valid while `is_pending`
  std::size_t bytes_counted = 0;                   ///< of its memory, in the server's budget
  bool is_pending = false;
  bool counted_legacy = false;
  bool kept_silent = false;
  bool wants_write = false;  ///< registered for writability
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
