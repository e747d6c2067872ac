// SPDX-License-Identifier: Apache-2.0
#include "launcher/attach_command.hpp"

#include "agent/process/signal_state.hpp"
#include "launcher/cli/logs_options.hpp"
#include "launcher/console/console_follower.hpp"
#include "launcher/console_view.hpp"
#include "launcher/files/ends_within.hpp"
#include "launcher/inspect/core/kill_order.hpp"
#include "launcher/inspect/ended_folder.hpp"
#include "launcher/inspect/job_client.hpp"
#include "launcher/job_choice.hpp"
#include "launcher/signal_queue.hpp"
#include "launcher/standard_output.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/wall_clock.hpp"
#include "rendezvous/log/log.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <stdexcept>

namespace muster::launcher {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

constexpr std::chrono::seconds kOrderAtMost{3};

class Attachment {
 public:
  Attachment(const FoundJob& job, const LogsOptions& options)
      : job_(job),
        follower_(job.card.console),
        view_(job.card, RecordFilter{options.ranks, {}, {}}, {}),
        signals_({SIGINT, SIGQUIT}) {
    follower_.go_to_last(options.lines);
  }

  int run() {
    while (!is_over()) {
      const bool idle = view_.text().empty() && !read();
      // What is not shown yet stays, whatever comes in between.
      view_.text().erase(0, write_some(view_.text(), signals_.fd()));
      const TimePoint until = idle ? steady_now() + kLookAtConsoleEvery : steady_now();
      while (const int signal = signals_.wait(until)) {
        if (signal == SIGQUIT) return leave();
        ask_to_end();
      }
    }
    return exit_code();
  }

 private:
  /// Reads what comes next; false if there is nothing now.
  bool read() {
    std::vector<ConsoleRecord> records;
    const bool has_more = follower_.read(records);
    view_.add(records);
    if (view_.has_ended()) view_.finish();
    return has_more;
  }

  bool is_over() {
    if (!view_.text().empty()) return false;
    if (view_.has_ended()) return true;
    if (!gone_at_ && steady_now() >= look_at_) {
      look_at_ = steady_now() + kLookAtJobEvery;
      if (!still_runs(job_.card)) gone_at_ = steady_now();
    }
    return gone_at_ && steady_now() >= *gone_at_ + kConsoleOutlivesJob;
  }

  int leave() const {
    std::fprintf(stderr, "\nmuster: note: job %s goes on; 'muster attach %s' shows it again\n", id(), id());
    return kExitSuccess;
  }

  /// Tells the launcher that somebody has pressed Ctrl-C, which counts how often.
  void ask_to_end() {
    try {
      KillAnswer answer = order({.signal = SIGINT});
      if (!answer.refusal.empty()) answer = order({.now = interrupts_ > 0});  // it does not end by SIGINT
      if (!answer.refusal.empty()) log_warning("job " + job_.card.id + " goes on: " + answer.refusal);
      ++interrupts_;
    } catch (const NoAnswer& error) {
      if (still_runs(job_.card)) log_warning("the job was not told to end: " + std::string(error.what()));
    } catch (const std::invalid_argument& error) {
      throw unreadable(job_, error.what());
    }
  }

  KillAnswer order(const KillOrder& wanted) const {
    JobCall call(job_.socket, to_json(wanted), kOrderAtMost);
    return kill_answer_from_json(call.line(kOrderAtMost));
  }

  int exit_code() const {
    if (const auto code = view_.exit_code()) return static_cast<int>(*code);
    // Only a folder that is this user's alone is looked at.
    for (const EndedJob& ended : find_ended(folder_of_jobs(), wall_clock_ms()))
      if (ended.card.id == job_.card.id && ended.card.start_time == job_.card.start_time)
        return ended.exit_code;
    throw LaunchError(kExitLauncherFailure,
                      "job " + job_.card.id +
                          " has ended, and its exit code is not known: its launcher or its "
                          "console process was killed");
  }

  const char* id() const { return job_.card.id.c_str(); }

  const FoundJob& job_;
  ConsoleFollower follower_;
  ConsoleView view_;
  SignalQueue signals_;
  int interrupts_ = 0;
  TimePoint look_at_ = steady_now() + kLookAtJobEvery;
  std::optional<TimePoint> gone_at_;
};

}  // namespace

int attach_command(const std::vector<std::string>& arguments) {
  const LogsOptions options = parse_logs_options("attach", arguments);
  if (options.help) return print(logs_help("attach"));
  agent::ignore_signals_of_others();  // a reader that is gone is an error, which is told
  const FoundJob job = running_job(options.job);
  if (job.card.console.empty())
    throw not_running(job, "it is not detached, and prints where it was started; 'muster logs " +
                               job.card.id + "' shows its log files, if it has any");
  check_folder_answers("the console of the job cannot be read in", job.card.console);
  if (::isatty(STDIN_FILENO) == 1)
    std::fprintf(stderr, "muster: note: Ctrl-C ends job %s, Ctrl-\\ leaves it running\n",
                 job.card.id.c_str());
  return Attachment(job, options).run();
}

}  // namespace muster::launcher
