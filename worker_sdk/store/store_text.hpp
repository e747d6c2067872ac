// SPDX-License-Identifier: Apache-2.0
// Times and keys as the client's errors show them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace muster {

inline std::string seconds_text(std::chrono::milliseconds time) {
  const auto count = time.count();
  if (count < 1000) return std::to_string(count) + " ms";
  std::string text = std::to_string(count / 1000);
  if (count % 1000 >= 100) text += "." + std::to_string(count % 1000 / 100);
  return text + " s";
}

inline std::string list_of(const std::vector<std::string>& keys) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(keys.size(), kShown); ++i)
    text += (i == 0 ? "'" : ", '") + keys[i] + "'";
  if (keys.size() > kShown) text += " and " + std::to_string(keys.size() - kShown) + " more";
  return text;
}

}  // namespace muster
