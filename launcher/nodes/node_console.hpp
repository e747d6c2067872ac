// SPDX-License-Identifier: Apache-2.0
// What the workers of all nodes print, on our own stdout and stderr.
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
/// console more often than others, not they for it. The windows of its channels bound what is kept of a
/// node. One thread, the executor's.
class NodeConsole {
 public:
  struct Streams {
    int out = 1;
    int err = 2;
    /// --raw-output: a terminal gets what comes, unfiltered.
    bool raw = false;
  };

  NodeConsole(const boost::asio::any_io_executor& executor, std::size_t nodes, Streams streams);
  ~NodeConsole();
  NodeConsole(const NodeConsole&) = delete;
  NodeConsole& operator=(const NodeConsole&) = delete;

  /// Shows what comes through `channel`, and gives back what has gone to the console. Throws
  /// std::invalid_argument for a second channel of one stream.
  void receive(std::size_t node, bool is_error, std::shared_ptr<rendezvous::Channel> channel);

  /// Nothing is received any more. Calls `done` when everything is written, however long a reader takes, or
  /// when one of the two below has given up. Once.
  void finish(std::function<void()> done);
  /// A console that takes nothing for `pause` is given up. Before or after finish(), which it is about.
  void give_up_without_progress(std::chrono::milliseconds pause);
  /// After `at_most`, counted from finish() or from now, whichever is later, what is left is dropped.
  void give_up_after(std::chrono::milliseconds at_most);

  /// What the user should know: output that could not be written, or was dropped, and how much.
  std::vector<std::string> notes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
