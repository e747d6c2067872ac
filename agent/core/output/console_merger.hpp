// SPDX-License-Identifier: Apache-2.0
// Puts the streams of several workers onto one console without mixing their lines. Pure: bytes and times in,
// bytes out.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace muster::agent {

/// Rules: whole lines are shown at once. An unfinished line is held for a moment and then shown if nobody
/// else's unfinished line is on display; that source then owns the cursor and goes on directly, until its
/// line ends or until another source has whole lines, which begin on a fresh line. No byte is lost (except as
/// said at `terminal`), and none is added but newlines, where a line is interrupted, and prefixes.
class ConsoleMerger {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Source = int;

  struct Options {
    /// How long an unfinished line is held before it is shown.
    std::chrono::milliseconds hold = std::chrono::milliseconds(100);
    /// An unfinished line longer than this is shown in pieces, which bounds the memory of a source.
    std::size_t longest_line = std::size_t{64} << 10;
    /// Whether the console is a terminal: then states of a progress bar (text before a carriage return) that
    /// could not be shown in time are dropped once they exceed 4 KiB, since the terminal would overwrite them
    /// anyway.
    bool terminal = false;
    /// Whether each line, or piece of one, is a whole frame (console_frame.hpp): the prefix of a source is
    /// then the beginning of its frames, and no source ever owns the cursor.
    bool framed = false;
  };

  explicit ConsoleMerger(Options options);

  /// `prefix` goes before each line, and again after a carriage return within a line. Empty: none.
  Source add(std::string prefix);
  /// Sets the prefix from the next line of this source on.
  void set_prefix(Source source, std::string prefix);
  /// Sets the prefix from the next one that is shown on: one that tells the time.
  void renew_prefix(Source source, const std::string& prefix);
  /// Appends to `out` what is to be shown now.
  void feed(Source source, std::string_view bytes, TimePoint now, std::string& out);
  /// Shows the rest of a source that has ended, without a newline of its own.
  void close(Source source, std::string& out);
  /// Holds what is there of this source's line for as long again, because the rest of it is about to come.
  void postpone(Source source, TimePoint now);
  /// Returns the time at which flush() has something to show; nothing if no unfinished line is held, or one
  /// is on display.
  std::optional<TimePoint> next_flush() const;
  void flush(TimePoint now, std::string& out);
  /// Call it after the last byte: it ends a line that is still open, so that whoever prints next begins on a
  /// fresh one.
  void end(std::string& out);

 private:
  /// Where the last byte of a source has left its line: it decides what must be shown before the next byte.
  enum class At { line_start, carriage_at_start, carriage, inside };

  struct SourceState {
    std::string prefix;
    std::string held;
    TimePoint held_since{};
    At at = At::line_start;
    /// Whether a newline of ours has interrupted the source's line: then its own newline, if that comes next,
    /// is not shown again.
    bool skip_newline = false;
  };

  void hold(SourceState& state, Source source, std::string_view bytes, TimePoint now, std::string& out);
  void show_held(SourceState& state, Source source, std::string& out);
  void take_cursor(Source source, std::string& out);
  void emit(SourceState& state, std::string_view bytes, std::string& out);
  static void emit_framed(const SourceState& state, std::string_view bytes, std::string& out);
  static void emit_prefixed(SourceState& state, std::string_view bytes, std::string& out);

  Options options_;
  std::map<Source, SourceState> sources_;
  Source next_ = 0;
  /// The source whose unfinished line is on display.
  std::optional<Source> owner_;
  /// Whether the cursor is not at the start of a line.
  bool line_open_ = false;
};

}  // namespace muster::agent
