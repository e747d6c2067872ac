// SPDX-License-Identifier: Apache-2.0
// A round in the order of its steps: start() starts the workers in rank order. on_exit() reaps those that
// end; judge_ends() finds out why, once no other worker is being killed that may have been the cause, and
// tells WorkerGroup, whose decisions apply() carries out: the other workers are stopped, and killed after the
// grace period. look_for_end() ends the round when no process of it is left.
#include "agent/round_runner.hpp"

#include "agent/core/node_report.hpp"
#include "agent/process/child_process.hpp"
#include "agent/process/memory_counts.hpp"
#include "agent/process/worker_binding.hpp"
#include "agent/process/worker_end.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/log/log.hpp"
#include "worker_sdk/status/status_writer.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;

/// Most bytes that a report quotes of all workers' error files together, so that it fits into one frame
/// whatever they wrote.
constexpr std::size_t kQuotedBytesMax = 1 << 20;

/// How often waiting calls are looked for.
constexpr std::chrono::seconds kCallsLookInterval{1};

/// A worker that is being killed is waited for so long when another one has failed.
constexpr std::chrono::seconds kKilledAtMost{1};

/// Longest time between the signal of a watchdog timer and the end of a worker that counts as its effect.
constexpr std::chrono::seconds kEndsByWatchdogWithin{5};

bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == EAGAIN || error == ENOMEM;
}

/// Returns the last bytes of a long text, which in a traceback say most.
std::string last_bytes(std::string text, std::size_t limit) {
  if (text.size() <= limit) return text;
  return "[...]" + text.substr(text.size() - limit);
}

std::int64_t wall_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Returns what a worker wrote into its error file; empty if it wrote none.
std::string read_error_file(const std::string& path) {
  return read_file(path, kErrorFileBytesMax, O_NOFOLLOW | O_NONBLOCK).value_or("");
}

}  // namespace

RoundRunner::RoundRunner(const boost::asio::any_io_executor& executor, const AgentSpec& spec,
                         WorkerOutput& output, const SignalState& signals, const BindingPlan& binding,
                         Events events)
    : executor_(executor),
      spec_(spec),
      output_(output),
      signals_(signals),
      binding_(binding),
      events_(std::move(events)),
      group_(spec.workers, spec.shutdown_timeout),
      workers_(static_cast<std::size_t>(spec.workers)),
      timer_(executor),
      calls_timer_(executor),
      cause_timer_(executor),
      children_(executor, SIGCHLD),
      status_(spec.workers),
      waits_(spec.report_after),
      stop_(executor, spec.host, spec.stop_groups, [this] { return living(); }) {}

void RoundRunner::start(const rendezvous::RoundResult& place, int restarts, const Environment& inherited) {
  place_ = place;
  memory_.begin(read_memory_counts());
  watch_children();
  watch_calls();
  watch_timers(inherited);
  for (int local_rank = 0; local_rank < spec_.workers; ++local_rank) {
    if (group_.running()) {
      start_worker(local_rank, place, restarts, inherited);
    } else {
      // A worker before this one could not be executed, so this one is not started at all.
      apply(group_.exited(local_rank, ExitStatus{ExitStatus::Kind::signaled, SIGTERM, false}, Clock::now()));
    }
  }
  look_for_end();
}

void RoundRunner::start_worker(int local_rank, const rendezvous::RoundResult& place, int restarts,
                               const Environment& inherited) {
  Worker& worker = workers_[static_cast<std::size_t>(local_rank)];
  const std::string on_host = spec_.node.alone() ? "" : " on " + spec_.host;
  try {
    worker.streams = output_.open(place.round, local_rank, place.first_rank + local_rank);
    if (const int input = events_.standard_input ? events_.standard_input(local_rank) : -1; input >= 0)
      worker.streams.stdin_fd = input;
  } catch (const std::exception& error) {
    return start_failed(local_rank, kExitLauncherFailure,
                        std::string("no streams for the worker: ") + error.what());
  }
  for (const std::string& error : {binding_.error, watchdog_error_})
    if (!error.empty()) return start_failed(local_rank, kExitLauncherFailure, error + on_host);
  try {
    ChildSpec child;
    const std::string status_file = status_.make(local_rank, place.first_rank + local_rank, place.world_size);
    child.environment = worker_environment(spec_, place, local_rank, restarts, worker.streams.error_file,
                                           inherited, status_file, watchdog_ ? watchdog_->path() : "");
    child.arguments = worker_arguments(spec_, local_rank);
    const std::string* path = find_variable(child.environment, "PATH");
    child.program =
        find_program(child.arguments.front(), path != nullptr ? *path : "/usr/local/bin:/usr/bin:/bin");
    if (child.program.empty()) throw std::system_error(ENOENT, std::generic_category());
    child.stdin_fd = worker.streams.stdin_fd;
    child.stdout_fd = worker.streams.stdout_fd;
    child.stderr_fd = worker.streams.stderr_fd;
    child.signals = signals_;
    if (!binding_.cpus.empty())
      child.affinity = affinity_mask(binding_.cpus.at(static_cast<std::size_t>(local_rank)));
    Child started = start_child(child);
    worker.pid = started.pid;
    worker.pidfd =
        std::make_unique<boost::asio::posix::stream_descriptor>(executor_, started.pidfd.release());
    status_.started(local_rank, worker.pid);
    output_.started(local_rank);
    watch(local_rank);
  } catch (const std::system_error& error) {
    if (is_shortage(error.code().value()))
      return start_failed(local_rank, kExitLauncherFailure,
                          "cannot start a process: " + error.code().message() +
                              "; raise the limits of open files (ulimit -n) and processes (ulimit -u), or "
                              "start fewer workers");
    start_failed(local_rank, start_error_exit_code(error.code().value()),
                 "cannot execute '" + spec_.command.front() + "'" + on_host + ": " + error.code().message());
  } catch (const std::exception& error) {
    start_failed(local_rank, 126, error.what());
  }
}

void RoundRunner::start_failed(int local_rank, int exit_code, const std::string& text) {
  workers_[static_cast<std::size_t>(local_rank)].start_error = text;
  output_.started(local_rank);
  output_.exited(local_rank);
  const ExitStatus status{ExitStatus::Kind::exited, exit_code, false};
  tell_failure(local_rank, status, text);
  apply(group_.not_started(local_rank, status, Clock::now()));
}

void RoundRunner::tell_failure(int local_rank, const ExitStatus& status, const std::string& cause) {
  if (!group_.running() || !first_failure_.text.empty()) return;
  first_failure_.round = place_.round;
  first_failure_.host = spec_.host;
  first_failure_.rank = place_.first_rank + local_rank;
  first_failure_.exit_code = status.exit_code();
  first_failure_.text =
      "rank " + std::to_string(first_failure_.rank) + " on " + spec_.host + " failed (" + cause + ")";
  first_failure_.signal = status.kind == ExitStatus::Kind::signaled ? status.value : 0;
  // What the worker had printed by its end has been read, unless console or disk were full.
  const Worker& worker = workers_[static_cast<std::size_t>(local_rank)];
  const WorkerError error = parse_error_file(read_error_file(worker.streams.error_file));
  first_failure_.error_line =
      worker.start_error.empty() ? error_line(error, output_.last_lines(local_rank)) : worker.start_error;
  first_failure_.stepped = std::any_of(calls_.ranks.begin(), calls_.ranks.end(),
                                       [](const auto& entry) { return entry.second.step > 0; });
  if (events_.failed) events_.failed(first_failure_);
}

void RoundRunner::watch(int local_rank) {
  // The kernel queues pidfds in the order in which the processes ended, which makes this the order of
  // arrival.
  workers_[static_cast<std::size_t>(local_rank)].pidfd->async_wait(
      boost::asio::posix::stream_descriptor::wait_read,
      [this, local_rank](const boost::system::error_code& error) {
        if (!error) on_exit(local_rank);
      });
}

void RoundRunner::on_exit(int local_rank) {
  Worker& worker = workers_[static_cast<std::size_t>(local_rank)];
  const auto end = reap_worker(local_rank, worker.pidfd->native_handle());
  if (!end) return watch(local_rank);
  worker.pidfd.reset();
  worker.ended_at_ms = wall_clock_ms();
  unjudged_.push_back(*end);
  if (cause_may_follow()) {
    if (unjudged_.size() == 1) wait_for_cause();
    return;
  }
  judge_ends();
}

/// Where much memory is given back, or on a busy machine, a worker that was killed may need longer to end
/// than another one needs to see that, and to leave. Of several nodes the coordinator takes the first that
/// says that it has failed, so there nothing is waited for.
bool RoundRunner::cause_may_follow() {
  const auto may_follow = [](const WorkerEnd& end) { return may_follow_a_loss(end.status); };
  if (spec_.max_nodes > 1 || !group_.running() ||
      std::none_of(unjudged_.begin(), unjudged_.end(), may_follow))
    return false;
  // While the worker that was found lives, the others need not be looked at: many may leave together.
  if (being_killed_ >= 0 && alive(being_killed_)) return true;
  const auto found = std::find_if(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.pidfd && is_being_killed(worker.pid);
  });
  being_killed_ = found == workers_.end() ? -1 : static_cast<int>(found - workers_.begin());
  return being_killed_ >= 0;
}

void RoundRunner::wait_for_cause() {
  cause_timer_.expires_after(kKilledAtMost);
  cause_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) judge_ends();
  });
}

void RoundRunner::judge_ends() {
  cause_timer_.cancel();
  const std::vector<WorkerEnd> ends = in_order_of_cause(std::exchange(unjudged_, {}));
  if (ends.empty()) return;
  for (const WorkerEnd& end : ends) judge_end(end);
  apply(group_.exited(ends, Clock::now()));
  look_for_end();
}

void RoundRunner::judge_end(const WorkerEnd& end) {
  const int local_rank = end.local_rank;
  const ExitStatus& status = end.status;
  Worker& worker = workers_[static_cast<std::size_t>(local_rank)];
  // The program below a wrapper that has ended may still save its state, and what it prints is still the
  // worker's.
  worker.output_goes_on = group_.stopping();
  if (!worker.output_goes_on) output_.exited(local_rank);
  if (watchdog_) watchdog_->forget(worker.pid);
  // A worker that lived on after the timer's signal did not end because of it.
  if (status.success() || Clock::now() - worker.watchdog_at > kEndsByWatchdogWithin) worker.watchdog.clear();
  if (worker.watchdog.empty()) worker.cpu_limit_s = end.cpu_limit_s;
  if (status.exit_code() != 0) {
    picture_calls(place_.first_rank + local_rank);
    if (worker.watchdog.empty() && worker.cpu_limit_s == 0 && !group_.killing())
      judge_memory(local_rank, status);
    const std::string& why = worker.watchdog.empty() ? worker.memory.why : worker.watchdog;
    tell_failure(local_rank, status, describe(status) + (why.empty() ? "" : ": " + why));
  }
}

void RoundRunner::judge_memory(int local_rank, const ExitStatus& status) {
  if (!group_.running() && !status.killed()) return;
  Worker& worker = workers_[static_cast<std::size_t>(local_rank)];
  const WorkerError error = parse_error_file(read_error_file(worker.streams.error_file));
  const std::string said = error.message + "\n" + joined(output_.last_lines(local_rank), "\n");
  worker.memory = memory_.worker_failed(status, said, spec_.workers == 1, read_memory_counts());
}

void RoundRunner::watch_children() {
  children_.async_wait([this](const boost::system::error_code& error, int) {
    if (error || group_.over()) return;
    watch_children();
    look_for_end();
  });
}

bool RoundRunner::alive(int local_rank) const {
  return workers_[static_cast<std::size_t>(local_rank)].pidfd != nullptr;
}

bool RoundRunner::is_living_worker(pid_t pid) const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [pid](const Worker& worker) { return worker.pidfd && worker.pid == pid; });
}

/// Reaps adopted processes. Workers are left to on_exit(), which keeps their order; it calls this again.
Orphans RoundRunner::reap_orphans() {
  return agent::reap_orphans([this](pid_t pid) { return is_living_worker(pid); },
                             [this](pid_t pid, bool by_itself) { stop_.reaped(pid, by_itself); });
}

void RoundRunner::look_for_end() {
  if (group_.over()) return;
  const Orphans reaped = reap_orphans();
  if (group_.ended_count() < spec_.workers) return stop_.look_soon();
  if (!reaped.children_left)
    apply(group_.descendants_gone());
  else if (reaped.any)
    stop_.look_soon();
}

/// Looks at intervals which calls the workers are in. They only note their calls where the agent can read
/// them, so that a call costs them nanoseconds.
void RoundRunner::watch_calls() {
  calls_timer_.expires_after(kCallsLookInterval);
  calls_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || group_.over()) return;
    look_at_calls();
    watch_calls();
  });
}

void RoundRunner::look_at_calls() {
  if (!group_.running() || !status_.in_use()) return;
  std::vector<status::RankView> ranks = status_.read();
  const std::uint64_t now = status::monotonic_ns();
  const std::vector<status::Wait> waits = waits_.due(ranks, now);
  if (waits.empty()) return;
  StatusWatch::look_at_processes(ranks);
  for (const status::Wait& wait : waits) log_warning(status::describe(wait, ranks, now));
}

/// Records for the report which call each worker is in: once a round, before anything is done to the workers.
void RoundRunner::picture_calls(int failed) {
  if (calls_pictured_ || !group_.running()) return;
  calls_pictured_ = true;
  std::vector<status::RankView> ranks = status_.read();
  StatusWatch::look_at_processes(ranks);
  calls_ = make_call_report(ranks, status_.recent_calls(kRecentCallsMax), failed, status::monotonic_ns());
}

void RoundRunner::stop(int signal) {
  judge_ends();
  picture_calls(-1);
  apply(group_.stop(signal, Clock::now()));
}

void RoundRunner::kill() {
  judge_ends();
  picture_calls(-1);
  apply(group_.kill_now(Clock::now()));
}

void RoundRunner::resize() const {
  for (const WorkerStop::Worker& worker : living()) ::kill(-worker.pid, SIGWINCH);
}

void RoundRunner::apply(const GroupActions& actions) {
  if (actions.signal_workers != 0) output_.name_ranks();
  if (actions.signal_workers != 0) stop_.signal(actions.signal_workers, *group_.kill_at());
  if (actions.end_leftovers) end_leftovers();
  if (actions.kill_workers && !stop_.kill_workers()) return apply(group_.no_worker_killed(Clock::now()));
  if (actions.kill_all) {
    stop_.kill_all();
    look_for_end();
  }
  if (actions.wake_at) {
    timer_.expires_at(*actions.wake_at);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) apply(group_.tick(Clock::now()));
    });
  }
  if (actions.over) {
    for (int local_rank = 0; local_rank < spec_.workers; ++local_rank)
      if (workers_[static_cast<std::size_t>(local_rank)].output_goes_on) output_.exited(local_rank);
    timer_.cancel();
    stop_.cancel();
    calls_timer_.cancel();
    children_.cancel();
    watchdog_.reset();
    memory_note_ = memory_.note(read_memory_counts());
    if (!memory_note_.empty())
      log_warning(memory_note_ + (spec_.node.alone() ? "" : " (" + spec_.host + ")"));
    events_.over();
  }
}

void RoundRunner::end_leftovers() {
  // Usually no process is left, which is known without reading /proc; look_for_end() follows.
  if (reap_orphans().children_left) stop_.end_leftovers();
}

std::vector<WorkerStop::Worker> RoundRunner::living() const {
  std::vector<WorkerStop::Worker> found;
  for (int local_rank = 0; local_rank < spec_.workers; ++local_rank)
    if (const pid_t pid = workers_[static_cast<std::size_t>(local_rank)].pid; alive(local_rank) && pid > 1)
      found.push_back({place_.first_rank + local_rank, pid});
  return found;
}

void RoundRunner::describe_round(NodeReport& report) const {
  report.round = place_.round;
  report.node_rank = place_.node_rank;
  report.restarts = place_.restarts;
  report.workers = reports();
  report.calls = calls_.lines;
  report.leftovers = stop_.leftovers();
  report.outcome = outcome() == RoundOutcome::succeeded ? NodeOutcome::succeeded
                   : outcome() == RoundOutcome::failed  ? NodeOutcome::failed
                                                        : NodeOutcome::stopped;
}

std::vector<WorkerReport> RoundRunner::reports() const {
  std::vector<WorkerReport> reports;
  for (int local_rank = 0; local_rank < spec_.workers; ++local_rank) {
    const Worker& worker = workers_[static_cast<std::size_t>(local_rank)];
    WorkerReport report;
    report.rank = place_.first_rank + local_rank;
    report.local_rank = local_rank;
    report.pid = worker.pid;
    report.host = spec_.host;
    report.outcome = group_.worker_outcome(local_rank);
    report.status = group_.status(local_rank);
    report.stop_signal = group_.signal_before_end(local_rank);
    report.arrival = group_.arrival(local_rank);
    report.ended_at_ms = worker.ended_at_ms;
    report.stdout_log = worker.streams.stdout_log;
    report.stderr_log = worker.streams.stderr_log;
    report.start_error = worker.start_error;
    report.cpu_limit_s = worker.cpu_limit_s;
    report.watchdog = worker.watchdog;
    report.memory = worker.memory.why;
    report.memory_ruled_out = worker.memory.ruled_out;
    if (const auto call = calls_.ranks.find(report.rank); call != calls_.ranks.end())
      report.call = call->second;
    report.last_lines = output_.last_lines(local_rank);
    const std::string error_text = read_error_file(worker.streams.error_file);
    if (!error_text.empty()) {
      report.error_file = worker.streams.error_file;
      report.error = parse_error_file(error_text);
      const std::size_t limit = kQuotedBytesMax / static_cast<std::size_t>(std::max(spec_.workers, 16));
      report.error.message = last_bytes(std::move(report.error.message), limit);
      report.error.traceback = last_bytes(std::move(report.error.traceback), limit);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

std::string RoundRunner::unkillable() const {
  return group_.unkillable() ? list_processes(descendants_of(::getpid())) : std::string();
}

}  // namespace muster::agent
