// SPDX-License-Identifier: Apache-2.0
// An event loop that turns until something is true.
#pragma once

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <stdexcept>

namespace muster::test {

/// Runs until `done`, which is asked after each event and every 10 ms; 30 s in vain are a failure of the
/// test.
template <typename Done>
void run_until(boost::asio::io_context& context, const Done& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    context.restart();
    context.run_one_for(std::chrono::milliseconds(10));
    if (std::chrono::steady_clock::now() >= deadline)
      throw std::runtime_error("the test waited 30 s in vain");
  }
}

}  // namespace muster::test
