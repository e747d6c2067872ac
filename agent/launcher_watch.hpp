// SPDX-License-Identifier: Apache-2.0
// What an agent knows of the launcher of its node: that it speaks over the link, or, when the link is cut or
// silent, what the coordinator says of it.
#pragma once

#include "rendezvous/client/coordinator_client.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace muster::agent {

/// One thread, the executor's. Destroy it only when no callback of the executor runs any more.
class LauncherWatch {
 public:
  struct Needs {
    /// Whether the link has a stream.
    std::function<bool()> link_works;
    /// Null: this node has not dialled the coordinator.
    std::function<rendezvous::CoordinatorClient*()> coordinator;
    /// The coordinator has answered once, and is not lost.
    std::function<bool()> coordinator_works;
    /// The link is cut, and the launcher lives.
    std::function<void()> lives;
    /// The launcher is gone: why.
    std::function<void(const std::string&)> gone;
  };

  /// `host`: this node's, for texts.
  LauncherWatch(const boost::asio::any_io_executor& executor, std::string host, Needs needs);

  /// Looks for silence until cancel(), if the launcher speaks now and then (a node that was started from
  /// elsewhere).
  void watch_for_silence();

  /// A message of it has come.
  void heard() { heard_at_ = std::chrono::steady_clock::now(); }

  /// The link has ended; asks the coordinator until the link works again or the launcher is known to be gone.
  void search();

  /// It is known to be gone, by the end of the only link or by what it sent.
  void give_up() { is_gone_ = true; }

  bool is_gone() const { return is_gone_; }

  /// The report has been sent, or will never be.
  void cancel();

 private:
  boost::asio::awaitable<void> look_for_silence();
  boost::asio::awaitable<bool> coordinator_hears_it();
  boost::asio::awaitable<void> ask();
  void lose(const std::string& why);

  boost::asio::any_io_executor executor_;
  std::string host_;
  Needs needs_;
  boost::asio::steady_timer ask_timer_;
  boost::asio::steady_timer silence_timer_;
  std::chrono::steady_clock::time_point heard_at_ = std::chrono::steady_clock::now();
  bool is_sought_ = false;
  bool is_gone_ = false;
  bool over_ = false;
};

}  // namespace muster::agent
