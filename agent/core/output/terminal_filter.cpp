// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/terminal_filter.hpp"

#include "rendezvous/log/terminal_text.hpp"

#include <algorithm>

namespace muster::agent {

namespace {

/// What to do with the bytes at the front of a text.
struct Look {
  enum class Verdict {
    keep,    ///< `length` bytes are shown as they are
    escape,  ///< the last of `length` bytes is written as \xNN, those before it are dropped
    hold,    ///< what the bytes are depends on others that are still to come
  };
  Verdict verdict = Verdict::keep;
  std::size_t length = 1;
};

constexpr char kEscape = '\x1b';
constexpr std::string_view kHideCursor = "\x1b[?25l";
constexpr std::string_view kShowCursor = "\x1b[?25h";

/// Returns 0 for ASCII that draws: the printable characters, backspace, tab, newline and carriage return.
/// Branches and wider numbers would keep the compiler from looking at whole blocks at once.
unsigned char is_special(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  const auto from_space = static_cast<unsigned char>(value - 0x20);
  const auto from_backspace = static_cast<unsigned char>(value - 0x08);
  const auto unprintable = static_cast<unsigned char>(from_space > 0x5e);
  const auto no_layout = static_cast<unsigned char>(from_backspace > 2);
  return unprintable & no_layout & static_cast<unsigned char>(byte != '\r');
}

/// Returns how many bytes at the front are ASCII that needs no second look. Nearly all output is nothing
/// else.
std::size_t plain_length(std::string_view text) {
  static constexpr std::size_t kBlock = 32;
  std::size_t at = 0;
  for (; at + kBlock <= text.size(); at += kBlock) {
    unsigned char special = 0;
    for (std::size_t i = 0; i < kBlock; ++i) special |= is_special(text[at + i]);
    if (special != 0) break;
  }
  while (at < text.size() && is_special(text[at]) == 0) ++at;
  return at;
}

/// Whether `text` is, or begins, what hides or shows the cursor, as bars of progress do while they draw. No
/// other private mode is let through.
bool is_cursor_mode(std::string_view text) {
  return kHideCursor.starts_with(text) || kShowCursor.starts_with(text);
}

/// Judges "ESC [ parameters letter". A private marker ('?', '>', '<', '=') or an intermediate byte makes a
/// letter mean something else: modes, queries, keyboard protocols. None of those is wanted.
Look look_at_control_sequence(std::string_view text) {
  static constexpr std::string_view kMoves =
      "ABCDEFGHIZ`ade"
      "f";
  static constexpr std::string_view kErases = "JKXPLM@";
  const auto is_parameter = [](char byte) {
    return (byte >= '0' && byte <= '9') || byte == ';' || byte == ':';
  };
  if (const std::string_view mode = text.substr(0, kHideCursor.size()); is_cursor_mode(mode))
    return {mode.size() < kHideCursor.size() ? Look::Verdict::hold : Look::Verdict::keep, mode.size()};
  const std::size_t most = std::min(text.size(), TerminalFilter::kLongestSequence);
  std::size_t at = 2;
  while (at < most && is_parameter(text[at])) ++at;
  if (at == TerminalFilter::kLongestSequence) return {Look::Verdict::escape, 1};
  if (at == text.size()) return {Look::Verdict::hold, at};
  const char letter = text[at];
  const std::string_view parameters = text.substr(2, at - 2);
  const bool colon = parameters.find(':') != std::string_view::npos;
  // With parameters, `s` sets margins in some terminals.
  const bool saves = (letter == 's' || letter == 'u') && parameters.empty();
  const bool draws =
      kMoves.find(letter) != std::string_view::npos || kErases.find(letter) != std::string_view::npos;
  if (letter == 'm' || saves || (draws && !colon)) return {Look::Verdict::keep, at + 1};
  return {Look::Verdict::escape, 1};
}

Look look_at_escape(std::string_view text) {
  if (text.size() < 2) return {Look::Verdict::hold, text.size()};
  switch (text[1]) {
    case '[':
      return look_at_control_sequence(text);
    case '7':  // saves and restores the cursor
    case '8':
      return {Look::Verdict::keep, 2};
    case '(':
      // This sequence goes back to ASCII, as part of what `tput sgr0` prints after a colour.
      if (text.size() < 3) return {Look::Verdict::hold, text.size()};
      return text[2] == 'B' ? Look{Look::Verdict::keep, 3} : Look{Look::Verdict::escape, 1};
    default:
      return {Look::Verdict::escape, 1};
  }
}

/// Judges the beginning of `text`, which is a byte that is not plain.
Look look_at(std::string_view text) {
  if (text.front() == kEscape) return look_at_escape(text);
  const Utf8Front front = utf8_front(text);
  if (front.kind == Utf8Front::Kind::cut) return {Look::Verdict::hold, front.length};
  if (front.kind == Utf8Front::Kind::bad || front.length == 1) return {Look::Verdict::escape, 1};
  const bool control = text[0] == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0;
  return control ? Look{Look::Verdict::escape, 2} : Look{Look::Verdict::keep, front.length};
}

void append_escaped(char byte, std::string& out) {
  static constexpr char digits[] = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  out += {'\\', 'x', digits[value >> 4], digits[value & 15]};
}

/// Appends what is to be shown, and keeps account of the cursor. Returns how many bytes at the end of `text`
/// must wait: none if it is `the_end`.
std::size_t pass(std::string_view text, bool the_end, std::string& out, bool& hidden) {
  std::size_t shown = 0;
  std::size_t at = 0;
  while ((at += plain_length(text.substr(at))) < text.size()) {
    Look look = look_at(text.substr(at));
    if (look.verdict == Look::Verdict::hold) {
      if (!the_end) break;
      look = {Look::Verdict::escape, 1};
    }
    if (look.verdict == Look::Verdict::keep && look.length == kHideCursor.size() &&
        is_cursor_mode(text.substr(at, look.length)))
      hidden = text[at + look.length - 1] == 'l';
    if (look.verdict == Look::Verdict::escape) {
      out.append(text.substr(shown, at - shown));
      append_escaped(text[at + look.length - 1], out);
      shown = at + look.length;
    }
    at += look.length;
  }
  out.append(text.substr(shown, at - shown));
  return text.size() - at;
}

}  // namespace

std::string_view TerminalFilter::feed(std::string_view bytes, std::string& room) {
  if (held_.empty() && plain_length(bytes) == bytes.size()) return bytes;
  room.clear();
  if (held_.empty()) {
    held_ = bytes.substr(bytes.size() - pass(bytes, false, room, hidden_));
    return room;
  }
  held_ += bytes;
  held_.erase(0, held_.size() - pass(held_, false, room, hidden_));
  if (held_.capacity() > 4 * kLongestSequence) held_.shrink_to_fit();
  return room;
}

std::string_view TerminalFilter::end(std::string& room) {
  room.clear();
  pass(held_, true, room, hidden_);
  held_.clear();
  // A worker that was killed cannot show the cursor any more.
  if (hidden_) room += kShowCursor;
  hidden_ = false;
  return room;
}

}  // namespace muster::agent
