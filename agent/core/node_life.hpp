// SPDX-License-Identifier: Apache-2.0
// Where a node's agent is in its job, from the first dial to the report, as a pure state machine.
#pragma once

#include <cstdint>

namespace muster::agent {

/// What an order to end does to whatever the agent is busy with.
enum class StopBy : std::uint8_t {
  nothing,      ///< nothing runs yet, or whoever waits has been told
  hanging_up,   ///< it waits for the coordinator: closing that connection ends the wait
  the_workers,  ///< a round has begun: its workers get the signal
};

/// One node's life: connected once, then one round after another, then the report. Each call is one
/// transition and asserts that it is allowed; an order to end may come in every phase. One thread.
class NodeLife {
 public:
  enum class Phase : std::uint8_t {
    starting,    ///< the coordinator has not been dialled
    connecting,  ///< it is being dialled
    joining,     ///< it has answered; the next round is being put together
    running,     ///< this node's workers run, or their leftovers are ended
    leaving,     ///< they have ended, and the coordinator is told
    waiting,     ///< this node's part succeeded; other nodes still work
    recalled,    ///< another node's part failed, and all join again
    reporting,   ///< no round will follow: the rest of the output and the report are on their way
    over,        ///< the report has been sent, or will never be
  };
  using enum Phase;

  Phase phase() const { return phase_; }

  /// starting -> connecting.
  void dial();
  /// starting, connecting, leaving, recalled -> joining.
  void join();
  /// joining -> running.
  void run();
  /// running -> leaving.
  void leave();
  /// leaving -> waiting.
  void wait();
  /// waiting -> recalled.
  void recall();
  /// Every phase but `over` -> reporting: the node joins no further round.
  void report();
  /// reporting -> over.
  void end();

  /// An order to end with `signal`, which the workers get: the first one counts.
  StopBy stop(int signal);

  /// From now on an order to end knows no grace period.
  void kill() { killed_ = true; }

  /// The coordinator has answered once.
  bool connected() const { return connected_; }

  /// Waits for the coordinator, dialled or asked for a round.
  bool before_round() const { return phase_ == connecting || phase_ == joining; }

  /// No worker of this node is in a round: the coordinator hears of an order to end only by what we say.
  bool in_no_round() const { return before_round() || !had_workers_; }

  /// Its part of the present round is over, and it has said so.
  bool has_left() const { return phase_ == waiting || phase_ == recalled; }

  /// No order to end has come.
  bool goes_on() const { return stop_signal_ == 0; }

  /// The signal of the first order to end; 0: there was none.
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
