// SPDX-License-Identifier: Apache-2.0
// Those at other shells who wait for the end of the job.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster::launcher {

/// Holds their connections until the end, and waits for none of them: who does not take a line at once gets
/// none. One thread.
class EndWaiters {
 public:
  static constexpr std::size_t kMost = 64;

  /// Sends a first line, and keeps the connection, unless kMost others wait.
  void add(UniqueFd client, const std::string& line);

  bool empty() const { return clients_.empty(); }

  /// Sends the last line, and hangs up.
  void tell(const std::string& line);

 private:
  std::vector<UniqueFd> clients_;
};

}  // namespace muster::launcher
