// SPDX-License-Identifier: Apache-2.0
// Where a node's agent is in its job, from the first dial to the report, as a pure state machine.
#pragma once

#include <cstdint>

namespace muster::agent {

/// What an order to end does to whatever the agent is busy with.
enum class StopBy : std::uint8_t {
  nothing,      ///< nothing runs yet, or whoever waits has been told
  hanging_up,   ///< the agent waits for the coordinator: closing that connection ends the wait
  the_workers,  ///< a round has begun: its workers get the signal
};

/// One node's life: connected once, then one round after another, then the report. Each call is one
/// transition and asserts that it is allowed; an order to end may come in every phase. Used from one thread.
class NodeLife {
 public:
  enum class Phase : std::uint8_t {
    starting,    ///< the coordinator has not been dialled
    connecting,  ///< the coordinator is being dialled
    joining,     ///< the coordinator has answered; the next round is being put together
    running,     ///< this node's workers run, or their leftovers are ended
    leaving,     ///< the workers have ended, and the coordinator is told
    waiting,     ///< this node's part succeeded; other nodes still work
    recalled,    ///< another node's part failed, and all join again
    reporting,   ///< no round will follow: the rest of the output and the report are on their way
    over,        ///< the report has been sent, or will never be
  };
  using enum Phase;

  Phase phase() const { return phase_; }

  /// Goes from starting to connecting.
  void dial();
  /// Goes from starting, connecting, leaving or recalled to joining.
  void join();
  /// Goes from joining to running.
  void run();
  /// Goes from running to leaving.
  void leave();
  /// Goes from leaving to waiting.
  void wait();
  /// Goes from waiting to recalled.
  void recall();
  /// Goes from every phase but `over` to reporting: the node joins no further round.
  void report();
  /// Goes from reporting to over.
  void end();

  /// Takes an order to end with `signal`, which the workers get; the first order counts.
  StopBy stop(int signal);

  /// Notes that from now on an order to end knows no grace period.
  void kill() { killed_ = true; }

  /// Whether the coordinator has answered once.
  bool connected() const { return connected_; }

  /// Whether the node waits for the coordinator, dialled or asked for a round.
  bool before_round() const { return phase_ == connecting || phase_ == joining; }

  /// Whether no worker of this node is in a round: then the coordinator hears of an order to end only by what
  /// we say.
  bool in_no_round() const { return before_round() || !had_workers_; }

  /// Whether this node's part of the present round is over, and the node has said so.
  bool has_left() const { return phase_ == waiting || phase_ == recalled; }

  /// Whether no order to end has come.
  bool goes_on() const { return stop_signal_ == 0; }

  /// Returns the signal of the first order to end; 0: there was none.
  int stop_signal() const { return stop_signal_; }

  bool killed() const { return killed_; }

 private:
  void enter(Phase next, bool allowed);

  Phase phase_ = starting;
  bool connected_ = false;
  bool had_workers_ = false;
  int stop_signal_ = 0;
  bool killed_ = false;
};

}  // namespace muster::agent
