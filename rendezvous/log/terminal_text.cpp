// SPDX-License-Identifier: Apache-2.0

#include "rendezvous/log/terminal_text.hpp"

namespace muster {
namespace {

bool moves_terminal(std::string_view character) {
  const unsigned first = byte_at(character, 0);
  if (character.size() == 1) return (first < 0x20 && first != '\t') || first == 0x7f;
  return character.size() == 2 && first == 0xc2 && byte_at(character, 1) < 0xa0;
}

}  // namespace

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
