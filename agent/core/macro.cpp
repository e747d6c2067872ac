// SPDX-License-Identifier: Apache-2.0
#include "agent/core/macro.hpp"

namespace muster::agent {
namespace {

bool starts_name(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string_view name_at(std::string_view text) {
  if (text.empty() || !starts_name(text[0])) return {};
  std::size_t length = 1;
  while (length < text.size() && (starts_name(text[length]) || (text[length] >= '0' && text[length] <= '9')))
    ++length;
  return text.substr(0, length);
}

/// The name that a '$' at the front of `text` introduces, and how many characters the whole macro takes.
/// An empty name: this '$' is an ordinary character.
std::pair<std::string_view, std::size_t> macro_at(std::string_view text) {
  if (text.size() > 1 && text[1] == '{') {
    const std::string_view name = name_at(text.substr(2));
    const std::size_t close = 2 + name.size();
    if (name.empty() || close >= text.size() || text[close] != '}') return {};
    return {name, close + 1};
  }
  const std::string_view name = name_at(text.substr(1));
  return {name, 1 + name.size()};
}

}  // namespace

std::string substitute_macros(std::string_view text, std::initializer_list<MacroValue> values) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t plain = text.find('$');
    result += text.substr(0, plain);
    if (plain == std::string_view::npos) break;
    text.remove_prefix(plain);
    if (text.substr(0, 2) == "$$") {
      result += '$';
      text.remove_prefix(2);
      continue;
    }
    auto [name, length] = macro_at(text);
    if (name.empty()) length = 1;
    std::string_view replacement = text.substr(0, length);
    for (const auto& [known, value] : values)
      if (!name.empty() && known == name) replacement = value;
    result += replacement;
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace muster::agent
