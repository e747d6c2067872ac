// SPDX-License-Identifier: Apache-2.0
#include "launcher/error_report.hpp"

#include "launcher/core/launch_error.hpp"
#include "rendezvous/log/colours.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

namespace muster::launcher {
namespace {

int report(const std::string& text, int exit_code) {
  const std::string line = "muster: error: " + for_terminal(text) + "\n";
  std::fputs(for_screen(STDERR_FILENO, line).c_str(), stderr);
  return exit_code;
}

}  // namespace

int with_errors_reported(const std::function<int()>& command) {
  try {
    return command();
  } catch (const LaunchError& error) {
    const int code = report(error.what(), error.exit_code());
    for (const std::string& line : error.excerpt()) std::fprintf(stderr, "  %s\n", line.c_str());
    return code;
  } catch (const std::exception& error) {
    return report(std::string("internal failure: ") + error.what() + "; please report it",
                  kExitLauncherFailure);
  }
}

}  // namespace muster::launcher
