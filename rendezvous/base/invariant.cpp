// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/invariant.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace muster {

void invariant_violated(const char* invariant, const char* file, int line) noexcept {
  const char* const slash = std::strrchr(file, '/');
  char text[512];
  const int size =
      std::snprintf(text, sizeof text,
                    "muster: internal error: '%.300s' does not hold (%.80s:%d); this is a bug of "
                    "Muster, please report this line\n",
                    invariant, slash == nullptr ? file : slash + 1, line);
  if (size > 0) (void)!::write(STDERR_FILENO, text, static_cast<std::size_t>(size));
  std::abort();
}

}  // namespace muster
