// SPDX-License-Identifier: Apache-2.0
#include "launcher/detached_run.hpp"

#include "launcher/console/console_folder.hpp"
#include "launcher/console/console_follower.hpp"
#include "launcher/console/console_process.hpp"
#include "launcher/console_view.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/doctor/read_keeping.hpp"
#include "launcher/error_report.hpp"
#include "launcher/files/ends_within.hpp"
#include "launcher/inspect/core/job_query.hpp"
#include "launcher/inspect/ended_folder.hpp"
#include "launcher/inspect/job_client.hpp"
#include "launcher/inspect/job_folder.hpp"
#include "launcher/inspect/job_inspection.hpp"
#include "launcher/signal_queue.hpp"
#include "launcher/standard_output.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/base/wall_clock.hpp"
#include "rendezvous/log/log.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace muster::launcher {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds kLookAtStartEvery{20};
/// Workers that live for so long are said to run; a program that fails at its first line ends before.
constexpr std::chrono::milliseconds kRunsAtLeast{200};
/// For a look at the folders of consoles, which may be on a disk of another machine.
constexpr std::chrono::seconds kFoldersWithin{3};
constexpr std::chrono::seconds kAnswerWithin{2};
/// Until a launcher that lives can be found by other shells.
constexpr std::chrono::seconds kSeenAtMost{30};
/// Beyond the time that the job itself allows its start.
constexpr std::chrono::seconds kStartMore{30};
/// What the other processes of a job may need after the launcher was killed, besides the grace period.
constexpr std::chrono::seconds kOutlivesMore{60};
constexpr std::size_t kLinesOfFailure = 200;

/// Says what would end the job against the user's will.
void warn_of_sessions() {
  const KeepingFacts facts = read_keeping(folder_of_jobs());
  if (facts.kill_user_processes == "yes" && !facts.lingers)
    log_warning(
        "logind ends all your processes on this host with your last session (KillUserProcesses=yes), this "
        "job, "
        "too; run 'loginctl enable-linger' before you log out");
}

/// Refuses a job that nobody could find, end or attach to.
void check_folder_of_jobs() {
  std::string trouble;
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(folder_of_jobs(), error)) &&
      !is_ours_alone(folder_of_jobs(), trouble))
    throw LaunchError(kExitLauncherFailure,
                      "a detached job could not be found by 'muster attach': " + trouble);
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  std::string whole = std::filesystem::absolute(path, error).lexically_normal().string();
  while (whole.size() > 1 && whole.back() == '/') whole.pop_back();
  return whole;
}

/// Makes the folder of a console, writes into it, and removes it.
void try_folder(const std::string& base, const std::string& id, bool base_is_ours) {
  const NewConsoleFolder folder(base, id, base_is_ours);
  try {
    write_console_card(folder.path(), {});
  } catch (const LaunchError&) {
    folder.remove();
    throw;
  }
  folder.remove();
}

/// Sees whether the file system of the console answers, and removes old consoles there. The kernel may hold
/// who looks for as long as a file server does not answer: that is not to be us. Throws LaunchError.
void prepare_folder(const std::string& base, const std::string& id, bool base_is_ours) {
  if (!ends_within(kFoldersWithin, [&] { try_folder(base, id, base_is_ours); }))
    throw LaunchError(kExitLauncherFailure, "the console of the job cannot be kept in " + base +
                                                ": its file system has not answered for " +
                                                std::to_string(kFoldersWithin.count()) +
                                                " s; give --log-dir with a directory in another one");
  if (base_is_ours) ends_within(kFoldersWithin, [&] { remove_old_consoles(base, wall_clock_ms()); });
}

/// The body of the process that runs the job; does not return.
[[noreturn]] void be_the_launcher(JobSpec spec, agent::SignalState signals, const RunJob& run) {
  ::setsid();
  ::signal(SIGHUP, SIG_IGN);
  signals.ignore(SIGHUP);
  use_null_device(false);
  std::optional<ConsoleProcess> console;
  const int code = with_errors_reported([&] {
    write_console_card(spec.console, card_of(spec));
    console.emplace(spec.console, spec.agent.shutdown_timeout + kOutlivesMore);
    spec.console_process = console->pidfd();
    return run(spec, signals);
  });
  std::fflush(nullptr);
  if (console) console->finish(code);
  ::_exit(code);
}

/// Whether every worker of every node that is in the job has been started, none has failed, and not all have
/// ended: what has failed or ended so early is about to start again, or to end the job.
bool workers_run(const JobAnswer& answer) {
  bool any = false;
  for (const agent::NodeStatus& node : answer.nodes) {
    // One without an agent is about to have one, or is lost.
    if (node.pid == 0 && node.doing != "is being started") continue;
    if (node.pid == 0 || node.workers.empty()) return false;
    for (const agent::WorkerStatus& worker : node.workers) {
      const bool ended = worker.state.starts_with("ended");
      if (worker.pid == 0 || (ended && worker.state != "ended (exit code 0)")) return false;
      any = any || !ended;
    }
  }
  return any && answer.silent.empty();
}

/// Waits until the job runs, as another shell would see it.
class DetachedStart {
 public:
  DetachedStart(const JobSpec& spec, pid_t launcher, SignalQueue& signals)
      : spec_(spec),
        launcher_(launcher),
        signals_(signals),
        ready_by_(steady_now() + spec.agent.limits.join_timeout + spec.remote.login_timeout + kStartMore) {}

  /// Whether the launcher was killed, and could not say how the job has ended.
  bool was_killed() const { return was_killed_; }

  /// Returns the exit code of the job if it has ended; nullopt when we are done with it.
  std::optional<int> wait() {
    for (;;) {
      if (const auto code = ended()) return code;
      if (const int signal = signals_.wait(steady_now() + kLookAtStartEvery)) {
        if (signal == SIGHUP) return std::nullopt;  // the session ends, and the job is not to
        ::kill(launcher_, signal);
      }
      if (!look()) did_not_run_at_ = steady_now();
      if (steady_now() >= did_not_run_at_ + kRunsAtLeast) return std::nullopt;
      if (!was_seen_ && steady_now() > seen_by_) {
        log_warning("the job runs as process " + std::to_string(launcher_) +
                    ", and nobody finds it; its console says why: " + spec_.console);
        return std::nullopt;
      }
      if (steady_now() > ready_by_) {
        log_warning("its workers do not run yet; 'muster status " + spec_.id + "' says what it waits for");
        return std::nullopt;
      }
    }
  }

 private:
  std::optional<int> ended() {
    int status = 0;
    if (::waitpid(launcher_, &status, WNOHANG) != launcher_) return std::nullopt;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    was_killed_ = true;
    log_warning("the launcher of the job was killed by signal " + std::to_string(WTERMSIG(status)));
    return kExitLauncherFailure;
  }

  /// Whether the job says that its workers run.
  bool look() {
    try {
      const std::string socket = folder_of_jobs() + "/" + spec_.id + "/socket";
      const std::string line = ask_job(socket, {}, kAnswerWithin, signals_.fd());
      was_seen_ = true;
      return workers_run(job_answer_from_json(line));
    } catch (const NoAnswer&) {
      // It begins or ends just now, or is busy.
    } catch (const Interrupted&) {
      // The signal is taken with the next look.
    } catch (const std::invalid_argument& error) {
      throw LaunchError(kExitLauncherFailure,
                        std::string("the job answers what cannot be read: ") + error.what());
    }
    return false;
  }

  const JobSpec& spec_;
  pid_t launcher_;
  SignalQueue& signals_;
  TimePoint seen_by_ = steady_now() + kSeenAtMost;
  TimePoint ready_by_;
  TimePoint did_not_run_at_ = steady_now();
  bool was_seen_ = false;
  bool was_killed_ = false;
};

/// Prints what the job has printed; `ours_only`: only our own messages.
void show_what_was_said(const JobSpec& spec, bool ours_only) {
  try {
    ConsoleFollower follower(spec.console);
    follower.go_to_last(kLinesOfFailure);
    ConsoleView view(card_of(spec), {}, {false, false, STDERR_FILENO});
    std::vector<ConsoleRecord> records;
    while (follower.read(records)) {
    }
    if (ours_only) std::erase_if(records, [](const ConsoleRecord& record) { return !record.is_ours(); });
    view.add(records);
    view.finish();
    std::fputs(view.text().c_str(), stderr);
  } catch (const LaunchError& error) {
    log_warning(error.what());
  }
}

/// Whether there was a job, of which others may have heard.
bool has_record(const std::string& id) {
  const std::vector<EndedJob> jobs = find_ended(folder_of_jobs(), wall_clock_ms());
  return std::any_of(jobs.begin(), jobs.end(), [&id](const EndedJob& job) { return job.card.id == id; });
}

/// Of a job that never was nothing is left.
int tell_refusal(const JobSpec& spec, const NewConsoleFolder& folder, int code) {
  show_what_was_said(spec, false);
  folder.remove();
  return code;
}

int tell_end(const JobSpec& spec, int code) {
  show_what_was_said(spec, code == 0);
  if (code == 0) print(spec.id + "\n");
  std::fprintf(
      stderr,
      "muster: note: job %s has ended already, with exit code %d; 'muster logs %s' shows its output\n",
      spec.id.c_str(), code, spec.id.c_str());
  return code;
}

int tell_start(const JobSpec& spec, pid_t launcher) {
  show_what_was_said(spec, true);
  print(spec.id + "\n");
  const char* id = spec.id.c_str();
  std::fprintf(stderr,
               "muster: note: job %s runs detached (process %d on %s)\n"
               "  output   %s; 'muster logs -f %s'\n"
               "  look     'muster status %s'; 'muster attach %s' follows it\n"
               "  end      'muster kill %s'\n",
               id, launcher, spec.agent.host.c_str(), spec.console.c_str(), id, id, id, id);
  return kExitSuccess;
}

}  // namespace

int run_detached(JobSpec spec, const std::string& log_dir, const agent::SignalState& at_start,
                 const RunJob& run) {
  const std::string base = log_dir.empty() ? folder_of_consoles() : absolute_path(log_dir);
  if (base.empty())
    throw LaunchError(kExitLauncherFailure,
                      "there is no place for the job's console: HOME and XDG_STATE_HOME are not set; give "
                      "--log-dir");
  check_folder_of_jobs();
  warn_of_sessions();
  spec.id = job_id(spec.program, random_number());
  prepare_folder(base, spec.id, log_dir.empty());
  const NewConsoleFolder folder(base, spec.id, log_dir.empty());
  spec.console = folder.path();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, nullptr, &before);
  SignalQueue signals({SIGINT, SIGTERM, SIGQUIT, SIGHUP});
  std::fflush(nullptr);
  const pid_t launcher = ::fork();
  if (launcher < 0) {
    const int error = errno;
    folder.remove();
    throw_errno("cannot start the detached launcher: fork", error);
  }
  if (launcher == 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    be_the_launcher(spec, at_start, run);
  }
  DetachedStart start(spec, launcher, signals);
  const auto code = start.wait();
  if (!code) return tell_start(spec, launcher);
  if (!start.was_killed() && !has_record(spec.id)) return tell_refusal(spec, folder, *code);
  return tell_end(spec, *code);
}

}  // namespace muster::launcher
