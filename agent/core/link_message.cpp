// SPDX-License-Identifier: Apache-2.0
#include "agent/core/link_message.hpp"

#include <array>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace muster::agent {
namespace {

// The words on the wire, indexed by Kind.
constexpr std::array<std::string_view, 18> kWords{
    "hello",  "key",   "spec", "listening", "notice", "coordinator", "stop",   "kill",   "resize",
    "signal", "query", "log",  "hang",      "event",  "status",      "answer", "report", "bye"};
static_assert(kWords.back() == "bye" &&
              kWords.size() == static_cast<std::size_t>(LinkMessage::Kind::bye) + 1);

}  // namespace

std::string encode(const LinkMessage& message) {
  const std::string_view word = kWords[static_cast<std::size_t>(message.kind)];
  const std::string number = std::to_string(message.number);
  std::string payload;
  payload.reserve(word.size() + number.size() + message.body.size() + 2);  // a key is copied once only
  payload += word;
  payload += ' ';
  payload += number;
  payload += '\n';
  payload += message.body;
  return payload;
}

LinkMessage decode_link_message(std::string_view payload) {
  const std::size_t line_end = payload.find('\n');
  const std::size_t space = payload.find(' ');
  if (line_end == std::string_view::npos || space == std::string_view::npos || space > line_end)
    throw std::invalid_argument("a message between launcher and agent has no kind");
  const std::string_view word(payload.data(), space);
  LinkMessage message;
  const std::string_view digits(payload.data() + space + 1, line_end - space - 1);
  const std::errc error = std::from_chars(digits.data(), digits.data() + digits.size(), message.number).ec;
  if (error != std::errc() || digits != std::to_string(message.number))
    throw std::invalid_argument("a message between launcher and agent has no number");
  for (std::size_t kind = 0; kind < kWords.size(); ++kind) {
    if (kWords[kind] != word) continue;
    message.kind = static_cast<LinkMessage::Kind>(kind);
    message.body = std::string(payload.substr(line_end + 1));
    return message;
  }
  throw std::invalid_argument("unknown message between launcher and agent: " + std::string(word));
}

}  // namespace muster::agent
