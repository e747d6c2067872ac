// SPDX-License-Identifier: Apache-2.0
#include "agent/core/exit_status.hpp"

#include "rendezvous/base/signal_name.hpp"

#include <signal.h>
#include <strings.h>

namespace muster::agent {

std::string describe(const ExitStatus& status) {
  if (status.kind == ExitStatus::Kind::exited) return "exit code " + std::to_string(status.value);
  return "killed by " + signal_name(status.value) + (status.core_dumped ? " (core dumped)" : "");
}

std::string signal_name(int signal) {
  const char* abbreviation = signal_abbreviation(signal);
  if (abbreviation == nullptr) return "signal " + std::to_string(signal);
  return std::string("SIG") + abbreviation;
}

int signal_number(const std::string& name) {
  const std::string bare = strncasecmp(name.c_str(), "SIG", 3) == 0 ? name.substr(3) : name;
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* abbreviation = signal_abbreviation(signal);
    if (abbreviation != nullptr && strcasecmp(abbreviation, bare.c_str()) == 0) return signal;
  }
  return 0;
}

}  // namespace muster::agent
