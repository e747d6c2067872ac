// SPDX-License-Identifier: Apache-2.0
// Another shell's end of a job's Unix socket.
#pragma once

#include "agent/core/node_status.hpp"

#include <chrono>
#include <stdexcept>
#include <string>

namespace muster::launcher {

/// The launcher does not answer: it is gone, stopped, or ends just now. The text says which.
class NoAnswer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Asks the job behind the socket at `path`, and returns the line that it answers. Blocks for at most
/// `limit`. Throws NoAnswer.
std::string ask_job(const std::string& path, const agent::NodeQuery& query, std::chrono::milliseconds limit);

/// Whether some process listens at the socket, of whichever pid namespace. Does not block.
bool is_listening(const std::string& path);

}  // namespace muster::launcher
