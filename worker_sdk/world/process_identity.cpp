// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/process_identity.hpp"

#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace muster {
namespace {

/// The id of the kernel's start as one word of to_text().
std::string boot_word() {
  const std::string boot = boot_id();
  return boot.empty() ? "unknown" : boot;
}

}  // namespace

ProcessIdentity ProcessIdentity::here() {
  ProcessIdentity result;
  if (const char* const given = secure_getenv("MUSTER_HOST_NAME"); given != nullptr)
    result.host = std::string(given).substr(0, 255);
  if (result.host.empty()) result.host = host_name();
  // The name is one word among others in to_text(), so it may hold no blanks.
  for (char& c : result.host)
    if (static_cast<unsigned char>(c) <= ' ') c = '_';
  result.boot = boot_word();
  result.pid_namespace = own_pid_namespace();
  result.pid = getpid();
  result.started = start_time_of(result.pid);
  return result;
}

std::string ProcessIdentity::to_text() const {
  std::ostringstream text;
  text << host << ' ' << boot << ' ' << pid_namespace << ' ' << pid << ' ' << started;
  return text.str();
}

std::optional<ProcessIdentity> ProcessIdentity::from_text(const std::string& text) {
  constexpr std::size_t kLongest = 512;
  if (text.size() > kLongest) return std::nullopt;
  ProcessIdentity result;
  std::istringstream words(text);
  words >> result.host >> result.boot >> result.pid_namespace >> result.pid >> result.started;
  if (!words || result.pid <= 0) return std::nullopt;
  return result;
}

std::string ProcessIdentity::describe() const {
  return "process " + std::to_string(pid) + " on host " + host;
}

Liveness liveness_of(const ProcessIdentity& process) {
  if (process.boot != boot_word()) {
    // Another kernel start means another host, or this host before its last start; the host's name tells
    // which.
    return process.host == ProcessIdentity::here().host ? Liveness::dead : Liveness::unknown;
  }
  if (process.pid_namespace != own_pid_namespace()) return Liveness::unknown;
  const std::uint64_t started = start_time_of(process.pid);
  return started != 0 && started == process.started ? Liveness::alive : Liveness::dead;
}

bool has_died_near(const ProcessIdentity& process, const ProcessIdentity& self) {
  return process.boot == self.boot && process.pid_namespace == self.pid_namespace &&
         liveness_of(process) == Liveness::dead;
}

}  // namespace muster
