// SPDX-License-Identifier: Apache-2.0
// "Did you mean ...?" for names that a user mistyped.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// How many letters have to be changed, added or left out to make `b` of `a`.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// The one of `names` that is nearest to `wrong`, the first of several, or "" where none is near (more than a
/// third of its letters differ).
template <typename Names>
std::string nearest_name(std::string_view wrong, const Names& names) {
  std::string_view nearest;
  std::size_t least = wrong.size() / 3 + 2;
  for (const std::string_view name : names) {
    const std::size_t differing = edit_distance(wrong, name);
    if (differing >= least) continue;
    least = differing;
    nearest = name;
  }
  return std::string(nearest);
}

/// Returns "did you mean 'DASHESNAME'?" with the nearest of `names`; "" where none is near.
template <typename Names>
std::string did_you_mean(std::string_view wrong, const Names& names, std::string_view dashes = "") {
  const std::string nearest = nearest_name(wrong, names);
  return nearest.empty() ? "" : "did you mean '" + std::string(dashes) + nearest + "'?";
}

/// Returns the long names of all flags of a parser (CLI::App), without their dashes.
template <typename Parser>
std::vector<std::string> flag_names(const Parser& parser) {
  std::vector<std::string> names;
  for (const auto* option : parser.get_options()) {
    const std::vector<std::string>& own = option->get_lnames();
    names.insert(names.end(), own.begin(), own.end());
  }
  return names;
}

/// Returns the long flag of `names` that somebody meant by the word "--wrong" or "--wrong=value", as
/// did_you_mean() says it; "" for any other word.
template <typename Names>
std::string did_you_mean_flag(std::string_view word, const Names& names) {
  constexpr std::string_view kDashes = "--";
  if (!word.starts_with(kDashes)) return "";
  return did_you_mean(word.substr(0, word.find('=')).substr(kDashes.size()), names, kDashes);
}

}  // namespace muster
