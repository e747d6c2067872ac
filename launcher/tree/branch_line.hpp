// SPDX-License-Identifier: Apache-2.0
// The near end of a login to a host that starts others: the launcher's, or that of a host in between.
#pragma once

#include "launcher/start/core/start_tree.hpp"
#include "launcher/start/node_connection.hpp"
#include "launcher/tree/core/tree_frame.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <string>

namespace muster::launcher {

/// One thread, the executor's. No callback runs inside a call of this class but resume(), nor after
/// destruction, which ends the login.
class BranchLine {
 public:
  struct Events {
    /// From there, and of a node of the plan. `ended` comes at most once for each node, and is its last one.
    /// When the line is lost, all nodes that have not ended are closed and end as by a client that has
    /// lost its session. All but the host's own have StartEnd::lost_through; that has StartEnd::broken if the
    /// line was ended for what came.
    std::function<void(TreeFrame)> frame;
    /// More can be sent.
    std::function<void()> sent;
    /// After the last frame. At most once.
    std::function<void()> lost;
  };

  /// `client` has greeted, and gave `ends`.
  BranchLine(const boost::asio::any_io_executor& executor, const BranchPlan& plan,
             std::unique_ptr<NodeConnection> client, LinkEnds ends, Events events);
  ~BranchLine();
  BranchLine(const BranchLine&) = delete;
  BranchLine& operator=(const BranchLine&) = delete;

  /// To be called when the client has ended.
  void client_ended(const StartEnd& end);

  void send(const TreeFrame& frame);
  bool has(std::size_t node) const;
  std::size_t pending() const;
  void pause();
  void resume();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
