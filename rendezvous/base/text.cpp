// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/text.hpp"

#include <algorithm>

namespace muster {

std::string and_more(std::size_t left) {
  return left == 0 ? "" : " and " + std::to_string(left) + " more";
}

std::string rank_list(std::vector<int> ranks, std::size_t most) {
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < ranks.size(); ++ranges) {
    if (ranges == most) return text + and_more(ranks.size() - i);
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace muster
