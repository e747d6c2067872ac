// SPDX-License-Identifier: Apache-2.0
// Formats times and keys for the client's errors.
#pragma once

#include "rendezvous/base/text.hpp"

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
  return joined_by(
      keys, [](const std::string& key) { return "'" + key + "'"; }, ", ", kShown);
}

}  // namespace muster
