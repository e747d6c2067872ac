// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/last_lines.hpp"

#include <algorithm>

namespace muster::agent {

void LastLines::feed(std::string_view bytes) {
  const std::size_t last = bytes.rfind('\n');
  if (last == std::string_view::npos) {
    extend_open(bytes);
    return;
  }
  // Only the newest kLines lines of this chunk matter: find where they begin.
  std::size_t begin = 0;
  std::size_t newline = last;
  for (std::size_t found = 0; found < kLines && newline > 0; ++found) {
    const std::size_t previous = bytes.rfind('\n', newline - 1);
    if (previous == std::string_view::npos) {
      begin = 0;
      break;
    }
    begin = previous + 1;
    newline = previous;
  }
  if (newline == 0 && bytes.front() == '\n' && begin == 1) begin = 0;
  if (begin > 0) {
    open_.clear();
    replace_ = false;
  }
  while (begin <= last) {
    const std::size_t end = bytes.find('\n', begin);
    extend_open(bytes.substr(begin, end - begin));
    push(open_);
    open_.clear();
    replace_ = false;
    begin = end + 1;
  }
  extend_open(bytes.substr(begin));
}

void LastLines::extend_open(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t text_end = bytes.find_last_not_of('\r');
  if (text_end == std::string_view::npos) {
    replace_ = true;
    return;
  }
  const std::size_t carriage = bytes.rfind('\r', text_end);
  if (carriage != std::string_view::npos || replace_) open_.clear();
  const std::size_t begin = carriage == std::string_view::npos ? 0 : carriage + 1;
  const std::size_t room = kLineBytes - std::min(kLineBytes, open_.size());
  open_.append(bytes.substr(begin, std::min(room, text_end + 1 - begin)));
  replace_ = text_end + 1 < bytes.size();
}

void LastLines::push(std::string_view line) {
  ring_[count_ % kLines].assign(line);
  ++count_;
}

std::vector<std::string> LastLines::lines() const {
  std::vector<std::string> result;
  const std::size_t kept = std::min(count_, kLines);
  const bool open = !open_.empty();
  for (std::size_t i = kept == kLines && open ? 1 : 0; i < kept; ++i)
    result.push_back(ring_[(count_ - kept + i) % kLines]);
  if (open) result.push_back(open_);
  return result;
}

}  // namespace muster::agent
