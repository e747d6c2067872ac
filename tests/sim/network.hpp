// SPDX-License-Identifier: Apache-2.0
// Simulated time and connections, of which every delay and fault comes from one seed.
#pragma once

#include "rendezvous/protocol/message.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <vector>

namespace muster::rendezvous::sim {

using Action = std::function<void()>;

/// What happens next, and chance.
class Timeline {
 public:
  explicit Timeline(std::uint64_t seed) : random_(seed) {}

  std::int64_t random(std::int64_t low, std::int64_t high);

  bool chance(int percent) { return random(0, 99) < percent; }

  std::int64_t now_ms() const { return now_ms_; }

  TimePoint now() const { return TimePoint(Milliseconds(now_ms_)); }

  void after(std::int64_t delay_ms, Action action);

  bool empty() const { return queue_.empty(); }

  /// The next event; time goes on to it. Throws Violation when time stands still.
  void step();

 private:
  struct Event {
    std::int64_t at_ms;
    std::uint64_t order;
    Action action;

    bool operator<(const Event& other) const {
      return at_ms != other.at_ms ? at_ms > other.at_ms : order > other.order;
    }
  };

  std::mt19937_64 random_;
  std::int64_t now_ms_ = 0;
  int events_of_now_ = 0;
  std::uint64_t next_order_ = 0;
  std::priority_queue<Event> queue_;
};

/// One direction of a connection. What is put in keeps its order; a blocked direction delays it, as
/// retransmission does; a dead one swallows it.
class Direction {
 public:
  explicit Direction(Timeline& timeline) : timeline_(timeline) {}

  /// Comes out after everything that was put in before.
  void put(Action action);
  void block_until(std::int64_t ms);

  void kill() { *alive_ = false; }

 private:
  Timeline& timeline_;
  std::int64_t free_at_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// A message and its number in its session; 0 for those without.
struct Packet {
  std::uint64_t number = 0;
  Message message;
};

/// One end of a session that outlives connections: what it has sent and how much has come.
struct SessionEnd {
  std::vector<Message> log;
  std::uint64_t received = 0;

  /// A new message, with its number.
  Packet number(const Message& message);
  /// What the other end has not got.
  std::vector<Packet> after(std::uint64_t received) const;
  /// Throws Violation when a message is lost or comes twice.
  void take(const Packet& packet);
};

class Node;

/// One connection between a node and the coordinator's machine.
struct Wire {
  Wire(Timeline& timeline, SessionId fresh_session, Node& opener)
      : fresh(fresh_session), node(opener), up(timeline), down(timeline) {}

  /// Of the session that begins on it, unless it resumes another.
  const SessionId fresh;
  Node& node;
  /// 0 until its hello has been taken.
  SessionId session = 0;
  bool open_at_node = true;
  bool open_at_shell = true;
  Direction up;
  Direction down;
};

}  // namespace muster::rendezvous::sim
