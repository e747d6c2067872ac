// SPDX-License-Identifier: Apache-2.0
#include "agent/process_environment.hpp"

#include <unistd.h>

#include <cstring>

namespace muster::agent {

Environment process_environment() {
  Environment environment;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals != nullptr)
      environment.emplace_back(std::string(*entry, static_cast<std::size_t>(equals - *entry)),
                               std::string(equals + 1));
  }
  return environment;
}

}  // namespace muster::agent
