// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/node_log.hpp"

#include "rendezvous/log/log.hpp"

#include <chrono>

namespace muster::launcher {

using Clock = std::chrono::steady_clock;

void NodeLog::line(std::size_t node, const std::string& text) {
  tell_left_out(node, false);
  if (limits_[node].admit(Clock::now())) log_warning(named(job_.nodes[node].name, shortened(text)));
}

void NodeLog::tell_left_out(std::size_t node, bool at_the_end) {
  const std::size_t count = limits_[node].take_left_out(Clock::now(), at_the_end);
  if (count > 0)
    log_warning(job_.nodes[node].name + ": " + std::to_string(count) + " more lines of it were left out (" +
                std::to_string(LineLimit::kLines) + " in " + std::to_string(LineLimit::kStretch.count()) +
                " s are shown)");
}

void NodeLog::client_stopped(std::size_t node, pid_t pid) const {
  log_warning(job_.nodes[node].name + ": what leads there (process " + std::to_string(pid) +
              " here) was stopped (SIGSTOP), and what that node says waits; it is killed after " +
              std::to_string(agent::kLauncherSpeaksEvery.count()) + " s, unless 'kill -CONT " +
              std::to_string(pid) + "' lets it go on");
}

}  // namespace muster::launcher
