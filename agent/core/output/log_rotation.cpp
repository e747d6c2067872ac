// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/log_rotation.hpp"

namespace muster::agent {

std::size_t bytes_for_file(std::uint64_t size, std::uint64_t limit, std::string_view bytes,
                           bool at_line_start) {
  const std::uint64_t room = limit > size ? limit - size : 0;
  if (limit == 0 || bytes.size() <= room) return bytes.size();
  const std::size_t newline = bytes.substr(0, room).rfind('\n');
  if (newline != std::string_view::npos) return newline + 1;
  return size > 0 && at_line_start ? 0 : static_cast<std::size_t>(room);
}

}  // namespace muster::agent
