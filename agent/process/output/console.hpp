// SPDX-License-Identifier: Apache-2.0
// Merges what the workers print to one console of ours (a terminal, pipe or file).
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

/// Joins the rules of ConsoleMerger, a timer for held lines, and the sink. Used from one thread.
class Console {
 public:
  using Source = ConsoleMerger::Source;

  /// How lines go into the sink.
  enum class Lines {
    shown,   ///< for people: an unfinished one after a moment
    framed,  ///< each as a frame (core/output/console_frame.hpp), whose beginning is the prefix of its source
    whole,   ///< whole ones only, as frames of other nodes come
  };

  /// `terminal` says that what goes into the sink ends on a terminal, so that each source goes through a
  /// TerminalFilter, unless `raw` (--raw-output).
  Console(const boost::asio::any_io_executor& executor, std::unique_ptr<ConsoleSink> sink, bool terminal,
          bool raw, Lines lines = Lines::shown);

  /// `more_comes` says whether bytes of this source wait for room here. An unfinished line is not shown then,
  /// however old it is, since its end is among those bytes.
  Source add(std::string prefix, std::function<bool()> more_comes);

  /// Does what ConsoleMerger::set_prefix does.
  void set_prefix(Source source, std::string prefix) { merger_.set_prefix(source, std::move(prefix)); }

  /// Does what ConsoleMerger::renew_prefix does.
  void renew_prefix(Source source, const std::string& prefix) { merger_.renew_prefix(source, prefix); }

  void feed(Source source, std::string_view bytes);
  void close(Source source);

  bool full() const { return sink_->full(); }

  /// Ends an open line, and the sink when all is written. No feed may follow.
  void stop();

  bool ended() const { return sink_->ended(); }

  std::size_t unwritten() const { return sink_->unwritten(); }

  std::vector<std::string> notes() const { return sink_->notes(); }

 private:
  void pass_on();
  void arm();

  /// Whether the console is a terminal that must be protected.
  const bool filtered_;
  ConsoleMerger merger_;
  std::unique_ptr<ConsoleSink> sink_;
  std::map<Source, TerminalFilter> filters_;
  std::map<Source, std::function<bool()>> more_comes_;
  boost::asio::steady_timer hold_timer_;
  bool armed_ = false;
  /// Buffers that are reused, so that a flood allocates nothing.
  std::string shown_;
  std::string merged_;
  /// Expires with this console, since a timer's handler that is queued already cannot be cancelled.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster::agent
