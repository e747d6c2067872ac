// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::launcher {

/// One start of one node's agent, under way or done, wherever the process is that leads there.
class StartConnection {
 public:
  StartConnection() = default;
  virtual ~StartConnection() = default;
  StartConnection(const StartConnection&) = delete;
  StartConnection& operator=(const StartConnection&) = delete;

  /// No greeting has come in time: ends it, and whoever waits for its end is told so.
  virtual void give_up() = 0;

  /// Ends what leads to the agent.
  virtual void kill() = 0;
};

}  // namespace muster::launcher
