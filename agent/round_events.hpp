// SPDX-License-Identifier: Apache-2.0
// Tells the launcher what happens to rounds and workers (core/node_event.hpp), as it happens.
#pragma once

#include "agent/core/node_event.hpp"
#include "agent/core/node_traits.hpp"
#include "agent/node_link.hpp"
#include "agent/round_runner.hpp"
#include "rendezvous/protocol/message.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>

namespace muster::agent {

/// One thread, the executor's.
class RoundEvents {
 public:
  /// Time between two looks for the step that an earlier round had reached. They are taken only after a
  /// restart, and only of programs that tell their steps.
  static constexpr std::chrono::milliseconds kLookEach{250};

  /// Traits and link outlive the object.
  RoundEvents(const boost::asio::any_io_executor& executor, const NodeTraits& traits, NodeLink& link)
      : traits_(traits), link_(link), timer_(executor) {}

  /// The workers of a round are being started by `runner`, which lasts until the next round begins.
  void begins(const rendezvous::RoundResult& place, const RoundRunner& runner, int workers);

  /// A worker of this node was the first to fail in its round.
  void failed(const rendezvous::FailRound& failure);

  /// A worker has ended.
  void tell(const NodeEvent& event);

  /// The round is over; `again`: another one follows.
  void ended(const rendezvous::RoundEnd& end, bool again);

  /// Looks for nothing any more.
  void cancel() { timer_.cancel(); }

  /// The coordinator has said a verdict on a hang, or taken it back.
  void notice(const rendezvous::JobNotice& notice);

 private:
  void look_for_step();
  void note_step();
  std::uint64_t step_now() const;

  const NodeTraits& traits_;
  NodeLink& link_;
  boost::asio::steady_timer timer_;
  const RoundRunner* runner_ = nullptr;
  int workers_ = 0;
  int round_ = 0;
  /// The last failure of this node's workers.
  rendezvous::FailRound failure_;
  /// The highest step that a worker has told in a round that is over.
  std::uint64_t reached_ = 0;
};

}  // namespace muster::agent
