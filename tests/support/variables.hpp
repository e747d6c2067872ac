// SPDX-License-Identifier: Apache-2.0
// Environments that tests make up.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace muster::test {

using Variables = std::map<std::string, std::string>;

/// As the process's own environment is asked. `variables` stays where it is meanwhile.
inline auto lookup_in(const Variables& variables) {
  return [&variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

}  // namespace muster::test
