// SPDX-License-Identifier: Apache-2.0
#include "agent/round_words.hpp"

#include "agent/core/error_file.hpp"
#include "agent/core/program_file.hpp"
#include "agent/process/child_process.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/posix.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

namespace muster::agent {

rendezvous::FailRound failure_of(const rendezvous::RoundResult& place, const std::string& host,
                                 int local_rank, const ExitStatus& status, const std::string& cause) {
  rendezvous::FailRound failure;
  failure.round = place.round;
  failure.host = host;
  failure.rank = place.first_rank + local_rank;
  failure.exit_code = status.exit_code();
  failure.text = "rank " + std::to_string(failure.rank) + " on " + host + " failed (" + cause + ")";
  failure.signal = status.kind == ExitStatus::Kind::signaled ? status.value : 0;
  return failure;
}

NodeEvent end_event(const rendezvous::RoundResult& place, const WorkerEnd& end, pid_t pid, bool stopped,
                    const std::string& memory) {
  NodeEvent event;
  event.kind = NodeEvent::Kind::worker_end;
  event.round = place.round;
  event.rank = place.first_rank + end.local_rank;
  event.pid = pid;
  event.exit_code = end.status.exit_code();
  event.signal = end.status.kind == ExitStatus::Kind::signaled ? end.status.value : 0;
  event.stopped = stopped;
  event.memory = !memory.empty();
  event.text = describe(end.status) + (memory.empty() ? "" : ": " + memory);
  return event;
}

NotStarted why_not_started(const std::system_error& error, const std::string& program,
                           const std::string& path, const std::string& on_host) {
  const int number = error.code().value();
  if (number == EMFILE || number == ENFILE || number == EAGAIN || number == ENOMEM)
    return {kExitLauncherFailure, "cannot start a process: " + error.code().message() +
                                      "; raise the limits of open files (ulimit -n) and processes (ulimit "
                                      "-u), or start fewer workers"};
  const auto head = read_file(path, kProgramHeadBytes, O_NONBLOCK | O_NOCTTY);
  const std::string obstacle = head ? exec_obstacle(number, *head) : "";
  return {start_error_exit_code(number), "cannot execute '" + program + "'" + on_host + ": " +
                                             error.code().message() +
                                             (obstacle.empty() ? "" : ": " + obstacle)};
}

NodeOutcome node_outcome(RoundOutcome outcome) {
  return outcome == RoundOutcome::succeeded ? NodeOutcome::succeeded
         : outcome == RoundOutcome::failed  ? NodeOutcome::failed
                                            : NodeOutcome::stopped;
}

std::string read_error_file(const std::string& path) {
  return read_file(path, kErrorFileBytesMax, O_NOFOLLOW | O_NONBLOCK).value_or("");
}

void add_error(WorkerReport& report, const std::string& path, std::size_t most) {
  const std::string text = read_error_file(path);
  if (text.empty()) return;
  report.error_file = path;
  report.error = last_of(parse_error_file(text), most);
}

std::size_t share_of(std::size_t bytes, std::size_t workers) {
  constexpr std::size_t kSharesLeast = 16;
  return bytes / std::max(workers, kSharesLeast);
}

}  // namespace muster::agent
