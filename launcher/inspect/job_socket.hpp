// SPDX-License-Identifier: Apache-2.0
// The launcher's end of a job's Unix socket: takes questions of other shells of this user.
#pragma once

#include "agent/core/node_status.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <sys/types.h>

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

  struct Question {
    /// One line, of at most agent::kNodeQueryMax bytes.
    std::string text;
    /// Who asks, as the kernel says. The process is 0 where it is in a pid namespace that is not seen here.
    uid_t uid = 0;
    pid_t pid = 0;
    /// Answers, and hangs up. It may be called later, or never.
    Reply reply;
    /// Hands the connection over in place of an answer: it is no client of this socket any more. Empty if it
    /// has ended.
    std::function<UniqueFd()> take_over;
  };

  using Ask = std::function<void(const Question&)>;

  /// Listens at `path`, which must not exist. `ask` is called for each line that comes; one for which it
  /// throws std::invalid_argument is no question, and its client is hung up on. Throws std::system_error.
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
