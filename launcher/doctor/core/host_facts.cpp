// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/core/host_facts.hpp"

#include <algorithm>
#include <string_view>

namespace muster::launcher {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool is_yes(std::string_view value) {
  return value == "1" || value == "yes" || value == "y" || value == "true" || value == "t" || value == "on";
}

}  // namespace

std::string kill_user_processes_of(const std::vector<std::string>& files) {
  constexpr std::string_view kKey = "KillUserProcesses";
  std::string said;
  for (const std::string& file : files) {
    for (std::string_view rest = file; !rest.empty();) {
      const std::string_view line = trimmed(rest.substr(0, rest.find('\n')));
      rest.remove_prefix(std::min(rest.size(), std::min(rest.find('\n'), rest.size()) + 1));
      const std::size_t equals = line.find('=');
      if (equals == std::string_view::npos || trimmed(line.substr(0, equals)) != kKey) continue;
      const std::string_view value = trimmed(line.substr(equals + 1));
      said = value.empty() ? "" : is_yes(value) ? "yes" : "no";
    }
  }
  return said;
}

}  // namespace muster::launcher
