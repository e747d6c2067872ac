// SPDX-License-Identifier: Apache-2.0
// Says a verdict on a hang once for all nodes, which each tell it with the stacks of their own ranks.
#pragma once

#include "agent/core/node_report.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace muster::launcher {

/// Used from the executor's one thread.
class HangNews {
 public:
  /// Is called with a line, and the number of the first node that has told the verdict.
  using Say = std::function<void(std::size_t node, const std::string& line)>;

  /// How long the stacks of the other nodes are waited for.
  static constexpr std::chrono::milliseconds kOthersWithin{300};

  HangNews(const boost::asio::any_io_executor& executor, Say say) : timer_(executor), say_(std::move(say)) {}

  /// A node has told a verdict. It is said as soon as `nodes` of them have, or after kOthersWithin. What a
  /// node tells late of one that was said is dropped.
  void told(std::size_t node, agent::HangReport hang, std::size_t nodes);

  /// Says what has been told so far; call it at the end.
  void flush();

 private:
  boost::asio::steady_timer timer_;
  Say say_;
  /// The verdict that is to be said, who has told it, and the text of the one that was said.
  std::optional<agent::HangReport> hang_;
  std::set<std::size_t> tellers_;
  std::string said_;
};

}  // namespace muster::launcher
