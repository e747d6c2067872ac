// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/console.hpp"

#include <chrono>
#include <utility>

namespace muster::agent {

namespace {

/// Longer than any frame is under way while its node lives.
constexpr std::chrono::hours kHeldForWhole{24 * 365};

ConsoleMerger::Options options_for(bool terminal, Console::Lines lines) {
  ConsoleMerger::Options options;
  options.terminal = terminal;
  options.framed = lines == Console::Lines::framed;
  if (lines == Console::Lines::whole) options.hold = kHeldForWhole;
  return options;
}

}  // namespace

Console::Console(const boost::asio::any_io_executor& executor, std::unique_ptr<ConsoleSink> sink,
                 bool terminal, bool raw, Lines lines)
    : filtered_(terminal && !raw),
      merger_(options_for(terminal, lines)),
      sink_(std::move(sink)),
      hold_timer_(executor) {}

Console::Source Console::add(std::string prefix, std::function<bool()> more_comes) {
  const Source source = merger_.add(std::move(prefix));
  more_comes_.emplace(source, std::move(more_comes));
  if (filtered_) filters_.try_emplace(source);
  return source;
}

void Console::feed(Source source, std::string_view bytes) {
  if (const auto filter = filters_.find(source); filter != filters_.end())
    bytes = filter->second.feed(bytes, shown_);
  merger_.feed(source, bytes, std::chrono::steady_clock::now(), merged_);
  pass_on();
}

void Console::close(Source source) {
  if (const auto filter = filters_.find(source); filter != filters_.end()) {
    merger_.feed(source, filter->second.end(shown_), std::chrono::steady_clock::now(), merged_);
    filters_.erase(filter);
  }
  merger_.close(source, merged_);
  more_comes_.erase(source);
  pass_on();
}

void Console::stop() {
  merger_.end(merged_);
  pass_on();
  hold_timer_.cancel();
  sink_->stop();
}

void Console::pass_on() {
  sink_->append(merged_);
  merged_.clear();
  arm();
}

void Console::arm() {
  if (armed_) return;
  const auto due = merger_.next_flush();
  if (!due) return;
  armed_ = true;
  hold_timer_.expires_at(*due);
  const std::weak_ptr<int> alive = alive_;
  hold_timer_.async_wait([this, alive](const boost::system::error_code& error) {
    if (error || alive.expired()) return;
    armed_ = false;
    const auto now = std::chrono::steady_clock::now();
    for (const auto& [source, more_comes] : more_comes_)
      if (more_comes()) merger_.postpone(source, now);
    merger_.flush(now, merged_);
    pass_on();
  });
}

}  // namespace muster::agent
