// SPDX-License-Identifier: Apache-2.0
// Shows what the workers of all nodes print, on our own stdout and stderr.
#pragma once

#include "rendezvous/wire/channel.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster::launcher {

/// Lines stay whole, each node's order is kept, and nodes take turns: a node that floods waits for the
/// console more often than others, and they do not wait for it. The windows of the channels bound what is
/// kept of a node. Used from the executor's one thread.
class NodeConsole {
 public:
  struct Streams {
    int out = 1;
    int err = 2;
    /// --raw-output: whether a terminal gets what comes, unfiltered.
    bool raw = false;
    /// Whether what comes are frames of a detached job, which stay whole.
    bool framed = false;
  };

  NodeConsole(const boost::asio::any_io_executor& executor, std::size_t nodes, Streams streams);
  ~NodeConsole();
  NodeConsole(const NodeConsole&) = delete;
  NodeConsole& operator=(const NodeConsole&) = delete;

  /// Shows what comes through `channel`, and gives back what has gone to the console. Throws
  /// std::invalid_argument for a second channel of one stream.
  void receive(std::size_t node, bool is_error, std::shared_ptr<rendezvous::Channel> channel);

  /// Ends the console: nothing is received any more. Calls `done` once, when everything is written, however
  /// long a reader takes, or when one of the two below has given up.
  void finish(std::function<void()> done);
  /// Gives up a console that takes nothing for `pause`. May be called before or after finish(), which it is
  /// about.
  void give_up_without_progress(std::chrono::milliseconds pause);
  /// Drops what is left after `at_most`, counted from finish() or from now, whichever is later.
  void give_up_after(std::chrono::milliseconds at_most);

  /// Returns what the user should know: output that could not be written, or was dropped, and how much.
  std::vector<std::string> notes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
