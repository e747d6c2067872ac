// SPDX-License-Identifier: Apache-2.0
#include "agent/process/temporary_directory.hpp"

#include <cstdlib>

namespace muster::agent {

std::string temporary_directory() {
  const char* temporary = std::getenv("TMPDIR");
  return temporary != nullptr && *temporary == '/' ? temporary : "/tmp";
}

}  // namespace muster::agent
