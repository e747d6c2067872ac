// SPDX-License-Identifier: Apache-2.0
// Keeps how far the conversation with one node has come, and what carries it. Pure.
#pragma once

#include <chrono>
#include <cstdint>

namespace muster::launcher {

/// One node as its launcher hears it. What a node says is not trusted: a message that does not fit is
/// answered with false. A second report is passed over; all else that does not fit ends the conversation.
/// What we do ourselves is asserted. Used from one thread.
class NodeContact {
 public:
  /// How far the conversation has come; it goes only forwards.
  enum class Progress : std::uint8_t {
    none,        ///< nothing has come from the node
    greeted,     ///< the node's hello has come
    instructed,  ///< the node has its part of the job
    reported,    ///< the node's report has come
  };

  /// What carries the node's messages.
  enum class Way : std::uint8_t {
    none,          ///< nothing yet
    direct,        ///< what was started for the node: ssh, srun, a socket pair
    relay,         ///< a channel through the coordinator that has carried nothing yet
    proven_relay,  ///< a relay over which something has been acknowledged
  };

  /// Takes the node's hello. False for a second one.
  bool take_hello();
  /// Takes where the coordinator listens. False if it is not on this node, and for a second time.
  bool take_listening();
  /// Takes the node's report. False for a second one.
  bool take_report();
  /// Notes that the node sent what no muster sends: nothing of it counts any more. False if that was known.
  bool misbehave();

  /// Notes that the node gets its part of the job. `coordinator` says that it may tell where the coordinator
  /// listens.
  void instruct(bool coordinator);
  /// Notes that the node has greeted over what was started for it.
  void open();
  /// Notes that the direct way was lost, and a channel takes its place.
  void relay();
  /// Notes that the channel has carried something.
  void relay_carries();

  /// Notes that what carried the node's messages has ended.
  void close() { open_ = false; }

  /// Notes that the node's guardian said that the agent is gone.
  void lose_agent() { agent_gone_ = true; }

  /// Whether the coordinator is still to be told that the guardian has ended: true once.
  bool tell_end();

  /// Returns how long what leads to the node may outlive the last that can come from it. `grace` is what its
  /// workers have between the stop signal and KILL. `serves_others` says that the coordinator, for which its
  /// guardian waits, runs there, and other nodes may need it for their reports.
  std::chrono::milliseconds end_limit(std::chrono::milliseconds grace, bool serves_others) const;

  bool instructed() const { return progress_ >= Progress::instructed; }

  bool reported() const { return progress_ == Progress::reported; }

  bool awaits_report() const { return progress_ == Progress::instructed; }

  bool broken() const { return broken_; }

  bool agent_gone() const { return agent_gone_; }

  bool closed() const { return !open_; }

  bool relayed() const { return way_ >= Way::relay; }

  bool relay_works() const { return way_ == Way::proven_relay; }

 private:
  Progress progress_ = Progress::none;
  Way way_ = Way::none;
  bool open_ = false;
  bool coordinator_ = false;
  bool listening_ = false;
  bool broken_ = false;
  bool agent_gone_ = false;
  bool end_told_ = false;
};

}  // namespace muster::launcher
