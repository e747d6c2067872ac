// SPDX-License-Identifier: Apache-2.0
// One start of one node's agent: waits for its greeting, hands out the link, and says how it ended.
#pragma once

#include "launcher/start/core/ssh_failure.hpp"
#include "launcher/start/started_process.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace muster::launcher {

/// The descriptors of a link, once the agent has greeted.
struct LinkEnds {
  UniqueFd in;   ///< the end to read from
  UniqueFd out;  ///< the end to write to; invalid: `in` is a socket for both
  /// Bytes that were read from `in` already.
  std::string first_bytes;
};

/// Used from the executor's one thread. No callback runs inside a call of this class, nor after its
/// destruction, which kills what is left of the process.
class NodeConnection {
 public:
  struct Events {
    /// Called when the agent has greeted. The receiver checks the version; that of an agent which speaks
    /// another protocol on the link has both numbers behind it, so that it is none of ours.
    std::function<void(const std::string& version, LinkEnds)> greeted;
    /// Called when so many bytes of the copy that the host asked for are on their way.
    std::function<void(std::uint64_t bytes, std::uint64_t of)> pushed;
    /// Called with a line on the process's stderr after the greeting, at most a few kilobytes long.
    std::function<void(const std::string& line)> said;
    /// Called at most once, when the process is gone and everything it had said is read.
    std::function<void(const StartEnd&)> ended;
  };

  /// `push_file` is what to send if the host asks for a copy of our executable.
  NodeConnection(const boost::asio::any_io_executor& executor, StartedProcess process,
                 const std::string& push_file, Events events);
  ~NodeConnection();
  NodeConnection(const NodeConnection&) = delete;
  NodeConnection& operator=(const NodeConnection&) = delete;

  /// Returns the process number; -1 if the process has ended and was reaped.
  pid_t pid() const;

  /// Ends the process, of which no greeting has come in time; `ended` will say so.
  void give_up();

  /// Kills the process and all that it started on this host. An agent on this host itself is left to its
  /// guardian, which is let go on if somebody has stopped it.
  void kill();

  /// Returns the process number of a client that somebody has stopped (SIGSTOP); 0 if it is not stopped, or
  /// is no client.
  pid_t stopped_client() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
