// SPDX-License-Identifier: Apache-2.0
#include "agent/core/macro.hpp"

#include <algorithm>

namespace muster::agent {
namespace {

constexpr std::string_view kBraced = "${local_rank}";
constexpr std::string_view kBare = "$local_rank";

bool continues_name(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// How many characters the macro at the front of `text` takes; 0: there is none.
std::size_t macro_length(std::string_view text) {
  if (text.starts_with(kBraced)) return kBraced.size();
  if (!text.starts_with(kBare)) return 0;
  return text.size() > kBare.size() && continues_name(text[kBare.size()]) ? 0 : kBare.size();
}

}  // namespace

std::string substitute_local_rank(std::string_view text, std::string_view local_rank) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t plain = text.find('$');
    result += text.substr(0, plain);
    if (plain == std::string_view::npos) break;
    text.remove_prefix(plain);
    const std::size_t macro = macro_length(text);
    const std::size_t escaped = macro_length(text.substr(1));
    if (macro != 0)
      result += local_rank;
    else
      result += text.substr(escaped == 0 ? 0 : 1, std::max<std::size_t>(escaped, 1));
    text.remove_prefix(macro != 0 ? macro : escaped + 1);
  }
  return result;
}

}  // namespace muster::agent
