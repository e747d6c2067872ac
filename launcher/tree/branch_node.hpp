// SPDX-License-Identifier: Apache-2.0
// The stream of one agent, on the host that has started it for the launcher.
#pragma once

#include "launcher/start/node_connection.hpp"
#include "launcher/tree/core/tree_frame.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>

namespace muster::launcher {

/// Between a process's ends and frames. One thread, the executor's. No callback runs inside a call of this
/// class but resume(), nor after its destruction, which closes the ends.
class BranchNode {
 public:
  /// For the launcher: `bytes`, `credit`, `closed`.
  using Send = std::function<void(TreeFrame)>;

  BranchNode(const boost::asio::any_io_executor& executor, std::uint32_t node, LinkEnds ends, Send send);
  ~BranchNode();
  BranchNode(const BranchNode&) = delete;
  BranchNode& operator=(const BranchNode&) = delete;

  /// Of the kinds `bytes` and `credit`. Throws std::runtime_error if more came than may be under way.
  void take(TreeFrame frame);
  /// Reads no further.
  void pause();
  void resume();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
