// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_report/advice.hpp"

#include "rendezvous/base/exit_code.hpp"

#include <signal.h>

#include <cstddef>
#include <string_view>
#include <vector>

namespace muster::launcher {
namespace {

using agent::ExitStatus;
using agent::NodeReport;
using agent::WorkerOutcome;
using agent::WorkerReport;

std::string advice_for_signal(int signal) {
  switch (signal) {
    case SIGKILL:
      return "if nobody killed it, the kernel's out-of-memory killer did: see dmesg, and use less memory or "
             "fewer workers";
    case SIGXCPU:
      return "it reached its limit of CPU time: raise it (ulimit -t)";
    case SIGXFSZ:
      return "it reached its limit of file sizes: raise it (ulimit -f)";
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGFPE:
    case SIGILL:
      return "let it leave a core file (ulimit -c unlimited), or set PYTHONFAULTHANDLER=1 for a Python "
             "traceback";
    default:
      return "it was sent by something outside the job: a batch system, a user, or the program itself";
  }
}

/// Returns the shared library that the dynamic loader did not find, by what the worker printed last; "" if
/// that does not tell.
std::string library_not_found(const std::vector<std::string>& lines) {
  constexpr std::string_view kBefore = "error while loading shared libraries: ";
  constexpr std::string_view kBehind = ": cannot open shared object file";
  for (const std::string& line : lines) {
    const std::size_t before = line.find(kBefore);
    if (before == std::string::npos) continue;
    const std::size_t name = before + kBefore.size();
    const std::size_t behind = line.find(kBehind, name);
    if (behind != std::string::npos) return line.substr(name, behind - name);
  }
  return "";
}

/// Shells and the dynamic loader end with this code when they do not find what they shall run.
std::string advice_for_not_found(const WorkerReport& root, const std::string& program) {
  const std::string library = library_not_found(root.last_lines);
  const std::string remedy = "link with -Wl,-rpath,DIR, or set LD_LIBRARY_PATH to its folder";
  if (!library.empty())
    return "the folder of " + library + " is not searched: " + remedy + " ('ldd " + program + "' lists all)";
  return "127 means that a command or a shared library was not found; of a library 'ldd " + program +
         "' tells which: " + remedy;
}

std::string advice_for_worker(const WorkerReport& root, const std::string& program) {
  if (root.outcome == WorkerOutcome::not_started) return "";
  if (root.cpu_limit_s > 0)
    return "it used up its limit of " + std::to_string(root.cpu_limit_s) +
           " s of CPU time: raise it (ulimit -t)";
  if (!root.watchdog.empty())
    return "see what it did last (--tee 3 --log-dir DIR keeps its output), or give the timer more time in "
           "the "
           "program, expires(after=...)";
  if (!root.memory.empty())
    return "use less memory, fewer workers or fewer processes of a data loader, or raise the limit";
  const bool signaled = root.status.kind == ExitStatus::Kind::signaled;
  if (signaled && root.status.value == SIGKILL && root.memory_ruled_out)
    return "somebody sent it: a user, a batch system, or a program that watches memory; the kernel has ended "
           "no "
           "process for memory there";
  if (signaled) return advice_for_signal(root.status.value);
  const bool told = !root.error.message.empty() || !root.error.traceback.empty();
  if (root.status.exit_code() == kExitNotFound && !told && !program.ends_with(".py"))
    return advice_for_not_found(root, program);
  if (told || !root.last_lines.empty()) return "";
  if (!root.stderr_log.empty() || !root.stdout_log.empty()) return "read its log files";
  return "what it printed is above; --tee 3 --log-dir DIR would keep the output of each worker in files";
}

/// What to do against a cause on the host of the worker that failed; empty if none was told there, or its end
/// is explained without it.
std::string advice_for_host(const NodeReport& node, const WorkerReport& root) {
  if (root.outcome == WorkerOutcome::not_started || root.cpu_limit_s > 0 || !root.watchdog.empty() ||
      !root.memory.empty())
    return "";
  for (const agent::HostCause& cause : node.host_causes) {
    if (cause.kind == agent::HostCauseKind::gpu_error)
      return cause.text + " on " + node.host + ": see 'dmesg' there (NVRM: Xid), and leave that GPU out";
    if (cause.kind == agent::HostCauseKind::full_disk)
      return cause.text + " on " + node.host + ": make room there if the program writes to it";
  }
  return "";
}

}  // namespace

std::string advice_for(const NodeReport& node, const WorkerReport& root, const std::string& program) {
  const std::string of_host = advice_for_host(node, root);
  return of_host.empty() ? advice_for_worker(root, program) : of_host;
}

}  // namespace muster::launcher
