// SPDX-License-Identifier: Apache-2.0
#include "agent/core/notices.hpp"

namespace muster::agent {

bool everybody_got(std::optional<std::chrono::steady_clock::time_point> own,
                   std::chrono::steady_clock::time_point now) {
  return own && now - *own <= 2 * kEverybodyWithin;
}

std::vector<int> UnheardNotices::to_name(int signal, const std::vector<int>& ranks) {
  std::vector<int> fresh;
  for (const int rank : ranks)
    if (named_.emplace(signal, rank).second) fresh.push_back(rank);
  return fresh;
}

}  // namespace muster::agent
