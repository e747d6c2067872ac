// SPDX-License-Identifier: Apache-2.0
// An event that coroutines wait for. Includes Asio.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>

namespace muster::rendezvous {

/// An event that happens once and can be awaited; set() may come before or after wait(). One thread, one
/// waiter.
class Event {
 public:
  explicit Event(const boost::asio::any_io_executor& executor) : timer_(executor) { reset(); }

  void reset() {
    happened_ = false;
    timer_.expires_at(std::chrono::steady_clock::time_point::max());
  }

  void set() {
    happened_ = true;
    timer_.cancel();
  }

  boost::asio::awaitable<void> wait() {
    boost::system::error_code ignored;
    while (!happened_)
      co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
  }

  /// Whether the event happened within `limit`.
  boost::asio::awaitable<bool> wait_for(std::chrono::milliseconds limit) {
    boost::system::error_code ignored;
    timer_.expires_after(limit);
    if (!happened_)
      co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
    co_return happened_;
  }

 private:
  boost::asio::steady_timer timer_;
  bool happened_ = false;
};

}  // namespace muster::rendezvous
