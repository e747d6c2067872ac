// SPDX-License-Identifier: Apache-2.0
// Another shell's end of a job's Unix socket.
#pragma once

#include "agent/core/node_status.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>

namespace muster::launcher {

/// The launcher does not answer: it is gone, stopped, or ends just now. The text says which.
class NoAnswer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The answer was not waited for any more.
class Interrupted : public std::exception {};

/// How long a job has for its answer: longer than the launcher waits for its nodes, and short enough for a
/// person.
inline constexpr std::chrono::milliseconds kAnswerAtMost =
    agent::kNodeAnswersWithin + std::chrono::seconds(2);

/// A question to the job behind a socket, whose answer has more than one line.
class JobCall {
 public:
  /// Asks. Blocks for at most `at_most`, and no longer once the descriptor `interrupt` (-1: none) is
  /// readable; this holds for line(), too. Throws NoAnswer and Interrupted.
  JobCall(const std::string& path, const std::string& question, std::chrono::milliseconds at_most,
          int interrupt = -1);

  /// Returns the next line of the answer. Throws NoAnswer, also where the other end has hung up, and
  /// Interrupted.
  std::string line(std::chrono::milliseconds at_most);

 private:
  UniqueFd fd_;
  int interrupt_;
  /// What was read behind the last line.
  std::string rest_;
};

/// Asks the job behind the socket at `path`, and returns the line that it answers. Blocks, and throws, as
/// JobCall does.
std::string ask_job(const std::string& path, const agent::NodeQuery& query, std::chrono::milliseconds at_most,
                    int interrupt = -1);

/// Whether some process listens at the socket, of whichever pid namespace. Does not block.
bool is_listening(const std::string& path);

}  // namespace muster::launcher
