// SPDX-License-Identifier: Apache-2.0
// A coordinator on its own, for exact answers to single events.
#pragma once

#include "catch.hpp"
#include "rendezvous/core/coordinator.hpp"

#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace muster::rendezvous {

inline TimePoint at(Milliseconds time) {
  return TimePoint(time);
}

/// A coordinator and what it has decided last.
struct Desk {
  /// `nodes`: so many begin() the first round; 0: nobody is there.
  explicit Desk(int min_nodes = 1, int max_nodes = 1, int nodes = 0)
      : Desk(options(min_nodes, max_nodes), nodes) {}

  explicit Desk(CoordinatorOptions options, int nodes = 0) : coordinator(std::move(options)) {
    if (nodes > 0) begin(nodes);
  }

  static CoordinatorOptions options(int min_nodes, int max_nodes) {
    CoordinatorOptions options;
    options.run_id = "job";
    options.limits.min_nodes = min_nodes;
    options.limits.max_nodes = max_nodes;
    options.limits.max_restarts = std::numeric_limits<int>::max();
    return options;
  }

  void hello(SessionId session, const std::string& node, const std::string& run_id = "job",
             Role role = Role::node) {
    Hello hello;
    hello.run_id = run_id;
    hello.role = role;
    hello.node = node;
    hello.incarnation = session;
    effects = coordinator.on_message(session, hello, now);
  }

  void launcher(SessionId session) { hello(session, "launcher", "job", Role::launcher); }

  /// Says hello and wants to be in the next round.
  void come(SessionId session, const std::string& node) {
    hello(session, node);
    join(session);
  }

  /// Nodes a, b, ... with sessions 1, 2, ... take their places in the next round.
  void begin(int nodes, RoundNumber round = 0) {
    for (int i = 1; i <= nodes; ++i) {
      const auto session = static_cast<SessionId>(i);
      if (coordinator.member(session) == nullptr)
        hello(session, std::string(1, static_cast<char>('a' + i - 1)));
      join(session);
    }
    open(round);
  }

  void cut(SessionId session, Ending ending = Ending::closed) {
    effects = coordinator.on_disconnect(session, "connection closed", now, ending);
  }

  void pass(Milliseconds time) {
    now += time;
    effects = coordinator.on_timer(now);
  }

  void send(SessionId session, const Message& message) {
    effects = coordinator.on_message(session, message, now);
  }

  void join(SessionId session, RoundNumber round = 0) { send(session, Join{"host", "10.0.0.1", 2, round}); }

  void open(RoundNumber round) { effects = coordinator.on_store_opened(round, Endpoint{"10.0.0.1", 1}, now); }

  template <typename T>
  int count() const {
    int found = 0;
    for (const Effect& effect : effects) found += std::holds_alternative<T>(effect);
    return found;
  }

  /// The first message of that type to `session`.
  template <typename T>
  std::optional<T> sent(SessionId session) const {
    for (const Effect& effect : effects) {
      const auto* send = std::get_if<effect::Send>(&effect);
      if (send != nullptr && send->session == session && std::holds_alternative<T>(send->message))
        return std::get<T>(send->message);
    }
    return std::nullopt;
  }

  std::string notes() const {
    std::string text;
    for (const Effect& effect : effects)
      if (const auto* note = std::get_if<effect::Note>(&effect)) text += note->text + "\n";
    return text;
  }

  Coordinator coordinator;
  Effects effects;
  TimePoint now{};
};

inline CoordinatorOptions with_restarts(int min_nodes, int max_nodes, int max_restarts) {
  CoordinatorOptions options = Desk::options(min_nodes, max_nodes);
  options.limits.max_restarts = max_restarts;
  return options;
}

/// What a node tells of a worker that failed.
inline FailRound failure(RoundNumber round) {
  return FailRound{round, "rank 3 exited with 7", 7, "h2", 3};
}

}  // namespace muster::rendezvous
