// SPDX-License-Identifier: Apache-2.0
// Serves a job's metrics to this host: a listener on loopback or at a Unix socket that answers `GET
// /metrics`.
#pragma once

#include "launcher/metrics/metrics_socket.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace muster::launcher {

/// Answers processes of this user and of root, as the kernel says whose a connection is; others are hung up
/// on before a byte is read. So is who is too many, asks too much, or does not ask, or take the answer,
/// within kClientAtMost. Used from the executor's one thread.
class MetricsListener {
 public:
  using Reply = std::function<void(const std::string& text)>;
  /// Asked for the text of a scrape; the reply may come later, or never.
  using Ask = std::function<void(Reply)>;

  static constexpr std::chrono::seconds kClientAtMost{10};
  static constexpr int kClientsMax = 4;

  /// Serves at `socket`, which is one. Throws std::system_error.
  MetricsListener(const boost::asio::any_io_executor& executor, MetricsSocket socket, Ask ask);
  /// Hangs up on who listens, and removes the Unix socket.
  ~MetricsListener();
  MetricsListener(const MetricsListener&) = delete;
  MetricsListener& operator=(const MetricsListener&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
