// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/line_filter.hpp"

#include <algorithm>
#include <utility>

namespace muster::agent {

LineFilter::LineFilter(std::vector<std::string> texts, std::string prefix)
    : texts_(std::move(texts)), prefix_(std::move(prefix)) {}

void LineFilter::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::size_t take = std::min({newline, bytes.size(), kLongestLine - held_.size()});
    const bool complete = take == newline;
    if (complete && held_.empty()) {
      judge(bytes.substr(0, take), out);
    } else {
      held_.append(bytes.substr(0, take));
      if (complete || held_.size() == kLongestLine) end(out);
    }
    bytes.remove_prefix(complete ? take + 1 : take);
  }
}

void LineFilter::end(std::string& out) {
  if (!held_.empty()) judge(held_, out);
  held_.clear();
}

void LineFilter::judge(std::string_view line, std::string& out) const {
  const bool picked = std::any_of(texts_.begin(), texts_.end(), [line](const std::string& text) {
    return line.find(text) != std::string_view::npos;
  });
  if (!picked) return;
  out += prefix_;
  out += line;
  out += '\n';
}

}  // namespace muster::agent
