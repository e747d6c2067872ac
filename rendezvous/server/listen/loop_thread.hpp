// SPDX-License-Identifier: Apache-2.0
// An event loop in a thread of its own. Includes Asio.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <string>
#include <thread>

namespace muster::rendezvous {

/// A thread that runs an event loop, with less priority than the thread that made it.
class LoopThread {
 public:
  /// `failed` gets the text of each exception that a handler threw, on that thread; the loop goes on.
  explicit LoopThread(std::function<void(const std::string&)> failed);
  /// Stops the thread; handlers that have not run are destroyed.
  ~LoopThread();
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  boost::asio::any_io_executor executor() { return context_.get_executor(); }

  /// Stops the thread; no handler runs any more when this returns. Idempotent.
  void stop();

 private:
  void run();

  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> busy_;
  std::function<void(const std::string&)> failed_;
  std::thread thread_;
};

}  // namespace muster::rendezvous
