// SPDX-License-Identifier: Apache-2.0
// The launcher's side of one login that leads to several nodes (--ssh-tree).
#pragma once

#include "agent/byte_transport.hpp"
#include "launcher/start/core/start_tree.hpp"
#include "launcher/start/node_connection.hpp"
#include "launcher/start/start_connection.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace muster::launcher {

/// One thread, the executor's. No callback runs inside a call of this class, nor after its destruction. What
/// comes of each node comes as from a login of its own (NodeConnection).
class Trunk {
 public:
  struct Events {
    /// Its host's turn has come; again after `retrying`.
    std::function<void(std::size_t node)> starting;
    std::function<void(std::size_t node, const std::string& cause)> retrying;
    std::function<void(std::size_t node, std::uint64_t bytes, std::uint64_t of)> pushed;
    std::function<void(std::size_t node, const std::string& version, std::unique_ptr<agent::ByteTransport>)>
        greeted;
    std::function<void(std::size_t node, const std::string& line)> said;
    std::function<void(std::size_t node, const StartEnd&, bool greeted)> ended;
  };

  /// `client` has greeted, and gave `ends`.
  Trunk(const boost::asio::any_io_executor& executor, const BranchPlan& plan,
        std::unique_ptr<NodeConnection> client, LinkEnds ends, Events events);
  ~Trunk();
  Trunk(const Trunk&) = delete;
  Trunk& operator=(const Trunk&) = delete;

  /// To be called when the client has ended.
  void client_ended(const StartEnd& end);

  /// No further starts there.
  void halt();

  /// For one node. May outlive this.
  std::unique_ptr<StartConnection> connection(std::size_t node);

 private:
  struct State;
  class Connection;
  class Transport;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
