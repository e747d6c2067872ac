// SPDX-License-Identifier: Apache-2.0
#include "launcher/standard_output.hpp"

#include "launcher/core/launch_error.hpp"

#include <cstdio>

namespace muster::launcher {

int print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return kExitSuccess;
  throw LaunchError(kExitLauncherFailure,
                    "stdout cannot be written; check the disk or the program that reads it");
}

}  // namespace muster::launcher
