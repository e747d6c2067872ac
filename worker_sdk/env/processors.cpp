// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/env/place.hpp"

#include <sched.h>

#include <algorithm>
#include <memory>
#include <thread>

namespace muster {
namespace {

bool overlap(const std::string& a, const std::string& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] == '1' && b[i] == '1') return true;
  return false;
}

}  // namespace

std::string processor_mask() {
  constexpr int kMostProcessors = 8192;
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostProcessors);
  const auto free_set = [](cpu_set_t* set) { CPU_FREE(set); };
  const std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(kMostProcessors), free_set);
  std::string mask;
  if (set && sched_getaffinity(0, bytes, set.get()) == 0)
    for (std::size_t i = 0; i < static_cast<std::size_t>(kMostProcessors); ++i)
      if (CPU_ISSET_S(i, bytes, set.get())) mask.resize(i, '0'), mask += '1';
  // Where the system does not say: all that there are.
  return mask.empty() ? std::string(std::max(1U, std::thread::hardware_concurrency()), '1') : mask;
}

int processor_share(std::span<const std::string> masks, std::size_t own) {
  const auto processors = std::count(masks[own].begin(), masks[own].end(), '1');
  const auto sharers = std::count_if(masks.begin(), masks.end(),
                                     [&](const std::string& mask) { return overlap(mask, masks[own]); });
  return static_cast<int>(std::max<std::ptrdiff_t>(1, processors / std::max<std::ptrdiff_t>(1, sharers)));
}

}  // namespace muster
