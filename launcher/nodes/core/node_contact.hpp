// SPDX-License-Identifier: Apache-2.0
// How far the conversation with one node has come, and what carries it. Pure.
#pragma once

#include <chrono>
#include <cstdint>

namespace muster::launcher {

/// One node as its launcher hears it. What a node says is not trusted: a message that does not fit is
/// answered with false. A second report is passed over; all else that does not fit ends the conversation.
/// What we do ourselves is asserted. One thread.
class NodeContact {
 public:
  /// Only forwards.
  enum class Progress : std::uint8_t {
    none,        ///< nothing has come from it
    greeted,     ///< its hello has come
    instructed,  ///< it has its part of the job
    reported,    ///< its report has come
  };

  /// What carries its messages.
  enum class Way : std::uint8_t {
    none,          ///< nothing yet
    direct,        ///< what was started for it: ssh, srun, a socket pair
    relay,         ///< a channel through the coordinator that has carried nothing yet
    proven_relay,  ///< the same, and it has acknowledged something
  };

  /// Its hello has come. False for a second one.
  bool take_hello();
  /// It says where the coordinator listens. False if it is not its node, and for a second time.
  bool take_listening();
  /// Its report has come. False for a second one.
  bool take_report();
  /// It sent what no muster sends: nothing of it counts any more. False if that was known.
  bool misbehave();

  /// It gets its part of the job. `coordinator`: it may say where the coordinator listens.
  void instruct(bool coordinator);
  /// It has greeted over what was started for it.
  void open();
  /// The direct way was lost, and a channel takes its place.
  void relay();
  /// The channel has carried something.
  void relay_carries();

  /// What carried its messages has ended.
  void close() { open_ = false; }

  /// Its guardian said that the agent is gone.
  void lose_agent() { agent_gone_ = true; }

  /// The coordinator is to be told that the guardian has ended: true once.
  bool tell_end();

  /// How long what leads to the node may outlive the last that can come from it. `grace`: what its workers
  /// have between the stop signal and KILL. `serves_others`: the coordinator, for which its guardian waits,
  /// runs there, and other nodes may need it for their reports.
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
