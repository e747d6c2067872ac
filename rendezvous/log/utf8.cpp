// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/log/terminal_text.hpp"

namespace muster {
namespace {

/// The second byte alone tells overlong forms, surrogates and what lies beyond U+10FFFF.
bool second_fits(unsigned first, unsigned second) {
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return second >= low && second <= high;
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

}  // namespace muster
