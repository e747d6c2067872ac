// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/greeting.hpp"

#include <charconv>

namespace muster::launcher {
namespace {

constexpr std::string_view kAgent = "muster-agent ";
constexpr std::string_view kPush = "muster-push 1 ";

/// Takes the number at the start of `text`, and the space after it. Returns false if there is none.
template <typename Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

}  // namespace

std::size_t GreetingReader::feed(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (state_ != State::waiting) return i;
    if (++total_ > kJunkBytesMax) {
      state_ = State::too_much;
      return i;
    }
    if (bytes[i] == '\n') {
      take_line();
      continue;
    }
    line_ += bytes[i];
    if (line_.size() < kLineBytesMax) continue;
    // The line is too long for a greeting. It is kept in pieces, so that the memory is bounded by
    // kJunkBytesMax alone.
    junk_ += line_;
    line_.clear();
  }
  return bytes.size();
}

void GreetingReader::take_line() {
  std::string_view line = line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::string_view rest = line;
  if (line.starts_with(kAgent)) {
    rest.remove_prefix(kAgent.size());
    if (take_number(rest, protocol_)) {
      version_ = rest;
      state_ = State::greeted;
    }
  } else if (line.starts_with(kPush)) {
    rest.remove_prefix(kPush.size());
    if (take_number(rest, push_bytes_) && rest.empty()) state_ = State::push_wanted;
  }
  if (state_ == State::waiting && !(line.empty() && junk_.empty())) junk_ += line_ + '\n';
  line_.clear();
}

}  // namespace muster::launcher
