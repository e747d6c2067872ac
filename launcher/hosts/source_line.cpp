// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/source_line.hpp"

#include <algorithm>

namespace muster::launcher {
namespace {

/// Bytes of the wrong text that are quoted before and after the place.
constexpr std::size_t kContext = 48;
constexpr std::size_t kQuoteLength = 40;

}  // namespace

std::string SourceLine::place(std::size_t at) const {
  const std::string number = std::to_string(at + 1);
  return in_file ? name + ":" + number : name + ", position " + number;
}

UsageError SourceLine::wrong(std::size_t at, const std::string& what) const {
  const std::size_t begin = at > kContext ? at - kContext : 0;
  const std::size_t end = std::min(text.size(), at + kContext);
  std::string excerpt = text.substr(begin, end - begin);
  for (char& c : excerpt)  // one column for each byte, or the caret would point elsewhere
    if (c < 0x20 || c > 0x7e) c = '?';
  std::size_t column = at - begin;
  if (begin > 0) {
    excerpt.insert(0, "...");
    column += 3;
  }
  if (end < text.size()) excerpt += "...";
  return UsageError(place(at) + ": " + what, {excerpt, std::string(column, ' ') + "^"});
}

std::string quote(const std::string& text) {
  return "'" + (text.size() > kQuoteLength ? text.substr(0, kQuoteLength) + "..." : text) + "'";
}

}  // namespace muster::launcher
