// SPDX-License-Identifier: Apache-2.0
// One console of ours (a terminal, pipe or file) with what the workers have to say to it.
#pragma once

#include "agent/core/output/console_merger.hpp"
#include "agent/core/output/terminal_filter.hpp"
#include "agent/process/output/console_sink.hpp"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// The merger's rules, a timer for held lines, and the sink. One thread.
class Console {
 public:
  using Source = ConsoleMerger::Source;

  /// `terminal`: what goes into the sink ends on one, so each source goes through a TerminalFilter, unless
  /// `raw` (--raw-output).
  Console(const boost::asio::any_io_executor& executor, std::unique_ptr<ConsoleSink> sink, bool terminal,
          bool raw);

  /// `more_comes`: whether bytes of this source wait for room here. An unfinished line is not shown then,
  /// however old it is: its end is among them.
  Source add(std::string prefix, std::function<bool()> more_comes);

  /// As ConsoleMerger::set_prefix.
  void set_prefix(Source source, std::string prefix) { merger_.set_prefix(source, std::move(prefix)); }

  void feed(Source source, std::string_view bytes);
  void close(Source source);

  bool full() const { return sink_->full(); }

  /// No more feeds: ends an open line, and the sink when all is written.
  void stop();

  bool ended() const { return sink_->ended(); }

  std::size_t unwritten() const { return sink_->unwritten(); }

  std::vector<std::string> notes() const { return sink_->notes(); }

 private:
  void pass_on();
  void arm();

  /// A terminal that must be protected.
  const bool filtered_;
  ConsoleMerger merger_;
  std::unique_ptr<ConsoleSink> sink_;
  std::map<Source, TerminalFilter> filters_;
  std::map<Source, std::function<bool()>> more_comes_;
  boost::asio::steady_timer hold_timer_;
  bool armed_ = false;
  /// Reused, so that a flood allocates nothing.
  std::string shown_;
  std::string merged_;
  /// Expires with us: a timer's handler that is queued already cannot be cancelled.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster::agent
