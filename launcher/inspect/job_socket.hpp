// SPDX-License-Identifier: Apache-2.0
// The launcher's end of a job's Unix socket: takes questions of other shells of this user.
#pragma once

#include "agent/core/node_status.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace muster::launcher {

/// Answers processes of this user and of root; whoever else gets in is hung up on. So is a client that asks
/// too much or what no muster asks, and one that does not ask, or take its answer, within kClientAtMost. Used
/// from the executor's one thread.
class JobSocket {
 public:
  using Reply = std::function<void(std::string line)>;
  using Ask = std::function<void(agent::NodeQuery, Reply)>;

  /// Listens at `path`, which must not exist. `ask` is called for each question, and its reply may come
  /// later, or never. Throws std::system_error.
  JobSocket(const boost::asio::any_io_executor& executor, const std::string& path, Ask ask);
  ~JobSocket();
  JobSocket(const JobSocket&) = delete;
  JobSocket& operator=(const JobSocket&) = delete;

  static constexpr std::chrono::seconds kClientAtMost{5};
  /// Clients that are served at a time; the agents keep as many answers for a link that is down.
  static constexpr int kClientsMax = 4;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
