// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/learner/text.hpp"

#include <array>
#include <cstdarg>
#include <cstdio>

namespace muster::train {

std::string format(const char* pattern, ...) {
  std::array<char, 512> text{};
  va_list values;
  va_start(values, pattern);
  std::vsnprintf(text.data(), text.size(), pattern, values);
  va_end(values);
  return text.data();
}

std::string percent(double share) {
  return format("%.1f %%", 100 * share);
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole >= 3600) return format("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  return format("%lld:%02lld", whole / 60, whole % 60);
}

}  // namespace muster::train
