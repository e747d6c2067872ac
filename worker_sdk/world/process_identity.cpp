// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/process_identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace muster {
namespace {

std::string boot_id() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  return text.empty() ? "unknown" : text;
}

std::uint64_t own_pid_namespace() {
  struct stat status {};

  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

/// When `pid` was started, and whether it still has anything to run: a zombie has not. nullopt: no such
/// process.
std::optional<std::uint64_t> start_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  // The name in parentheses may hold anything; what follows is counted from its end.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(line.substr(name_end + 1));
  std::string state;
  words >> state;
  if (state == "Z" || state == "X") return std::nullopt;
  std::string skipped;
  constexpr int kFieldsBeforeStart = 18;  // from ppid (4) to itrealvalue (21)
  for (int i = 0; i < kFieldsBeforeStart; ++i) words >> skipped;
  std::uint64_t started = 0;
  words >> started;
  if (!words) return std::nullopt;
  return started;
}

}  // namespace

ProcessIdentity ProcessIdentity::here() {
  ProcessIdentity result;
  std::array<char, 256> name{};
  if (const char* const given = secure_getenv("MUSTER_HOST_NAME"); given != nullptr)
    result.host = std::string(given).substr(0, name.size() - 1);
  if (result.host.empty() && gethostname(name.data(), name.size() - 1) == 0) result.host = name.data();
  if (result.host.empty()) result.host = "localhost";
  // It is a word among others in to_text().
  for (char& c : result.host)
    if (static_cast<unsigned char>(c) <= ' ') c = '_';
  result.boot = boot_id();
  result.pid_namespace = own_pid_namespace();
  result.pid = getpid();
  result.started = start_of(result.pid).value_or(0);
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
  if (process.boot != boot_id()) {
    // Another kernel, or this one before its last start: the name tells which.
    return process.host == ProcessIdentity::here().host ? Liveness::dead : Liveness::unknown;
  }
  if (process.pid_namespace != own_pid_namespace()) return Liveness::unknown;
  const auto started = start_of(process.pid);
  return started && *started == process.started ? Liveness::alive : Liveness::dead;
}

bool has_died_near(const ProcessIdentity& process, const ProcessIdentity& self) {
  return process.boot == self.boot && process.pid_namespace == self.pid_namespace &&
         liveness_of(process) == Liveness::dead;
}

}  // namespace muster
