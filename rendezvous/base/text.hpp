// SPDX-License-Identifier: Apache-2.0
// Formats lists and JSON texts, and reads numbers from texts.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace muster {

/// " and 3 more"; empty for 0.
std::string and_more(std::size_t left);

/// "n0, n1 and 3 more": the texts that `text_of` makes of the first `most` items, and the number of the
/// remaining items.
template <typename Items, typename TextOf>
std::string joined_by(const Items& items, const TextOf& text_of, std::string_view separator = ", ",
                      std::size_t most = std::string::npos) {
  std::string text;
  std::size_t count = 0;
  for (const auto& item : items) {
    if (++count > most) continue;
    if (count > 1) text += separator;
    text += text_of(item);
  }
  return count > most ? text + and_more(count - most) : text;
}

/// Does the same for items that are texts or whole numbers.
template <typename Items>
std::string joined(const Items& items, std::string_view separator = ", ",
                   std::size_t most = std::string::npos) {
  const auto text_of = [](const auto& item) {
    if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(item)>>)
      return std::to_string(item);
    else
      return std::string_view(item);
  };
  return joined_by(items, text_of, separator, most);
}

/// The ranks as ranges: {0, 1, 2, 5} is "0-2, 5". Sorts. Beyond `most` ranges the remaining ranks are only
/// counted: "0, 2 and 3 more".
std::string rank_list(std::vector<int> ranks, std::size_t most = std::string::npos);

/// `text` as a JSON string, quotes included. Bytes that are not ASCII stay as they are.
std::string json_text(std::string_view text);

/// The whole number that is all of `text`, in `base`; nullopt if it is anything else or too large.
template <typename Number>
std::optional<Number> parse_number(std::string_view text, int base = 10) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The number at the beginning of `text` as C's strtoll reads it: after white space, with a sign. nullopt
/// without digits or out of range.
std::optional<std::int64_t> leading_number(std::string_view text);

/// Decodes \040 and the like, as which /proc writes blanks and other special characters of a path.
std::string octal_unescaped(const std::string& text);

/// The tasks of each node as Slurm writes them: "2(x3),1" is 2, 2, 2, 1. nullopt for a text that Slurm does
/// not write, or for more than 2^20 nodes or tasks of a node.
std::optional<std::vector<int>> parse_task_counts(std::string_view text);

}  // namespace muster
