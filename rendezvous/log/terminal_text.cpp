// SPDX-License-Identifier: Apache-2.0

#include "rendezvous/log/terminal_text.hpp"

namespace muster {
namespace {

/// Whether the second byte may follow the first; it alone tells overlong forms, surrogates and numbers beyond
/// U+10FFFF.
bool second_fits(unsigned first, unsigned second) {
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return second >= low && second <= high;
}

bool moves_terminal(std::string_view character) {
  const unsigned first = byte_at(character, 0);
  if (character.size() == 1) return (first < 0x20 && first != '\t') || first == 0x7f;
  return character.size() == 2 && first == 0xc2 && byte_at(character, 1) < 0xa0;
}

}  // namespace

Utf8Front utf8_front(std::string_view text) {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return {Utf8Front::Kind::good, 1};
  if (first < 0xc2 || first > 0xf4) return {};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (text.size() > 1 && !second_fits(first, byte_at(text, 1))) return {};
  for (std::size_t i = 2; i < length && i < text.size(); ++i)
    if ((byte_at(text, i) & 0xc0) != 0x80) return {};
  if (text.size() < length) return {Utf8Front::Kind::cut, text.size()};
  return {Utf8Front::Kind::good, length};
}

std::string for_terminal(std::string_view line) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string result;
  result.reserve(line.size());
  while (!line.empty()) {
    const Utf8Front front = utf8_front(line);
    const bool good = front.kind == Utf8Front::Kind::good;
    const std::string_view character = line.substr(0, good ? front.length : 1);
    if (good && !moves_terminal(character)) {
      result += character;
    } else {
      const unsigned value = byte_at(character, character.size() - 1);
      result += {'\\', 'x', digits[value >> 4], digits[value & 15]};
    }
    line.remove_prefix(character.size());
  }
  return result;
}

}  // namespace muster
