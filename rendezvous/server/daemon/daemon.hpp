// SPDX-License-Identifier: Apache-2.0
// The life of a daemon's process, whether it serves one job or hosts several. Includes Asio.
#pragma once

#include "rendezvous/base/resident_memory.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>

namespace muster::rendezvous {

/// Serves on one thread until it is over; then it ends what it serves, and lets go out what was said last.
class Daemon {
 public:
  void run() {
    boost::asio::steady_timer started(context_, kStartTakes);
    started.async_wait([](const boost::system::error_code& error) {
      if (!error) give_back_code();
    });
    while (!is_over() && !context_.stopped()) context_.run_one();
    started.cancel();
    stop();
    context_.restart();
    context_.run_for(kFarewell);
  }

 protected:
  ~Daemon() = default;

  /// Whether nobody needs the daemon any more; asked after each event.
  virtual bool is_over() = 0;

  /// Ends all sessions and every wait, so that only messages on their way out are left.
  virtual void stop() = 0;

  boost::asio::io_context context_{1};

 private:
  /// The time for those messages.
  static constexpr std::chrono::seconds kFarewell{1};
};

}  // namespace muster::rendezvous
