// SPDX-License-Identifier: Apache-2.0
// A round in the order of its steps: start() starts the workers in rank order. on_exit() reaps those that
// end; judge() finds out why, once no other worker is being killed that may have been the cause (EndQueue),
// and tells WorkerGroup, whose decisions apply() carries out: the other workers are stopped, and killed after
// the grace period. look_for_end() ends the round when no process of it is left.
#include "agent/round_runner.hpp"

#include "agent/core/error_file.hpp"
#include "agent/core/node_report.hpp"
#include "agent/core/node_traits.hpp"
#include "agent/core/stop_notice.hpp"
#include "agent/process/child_process.hpp"
#include "agent/process/memory_counts.hpp"
#include "agent/process/worker_binding.hpp"
#include "agent/process/worker_end.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/wall_clock.hpp"
#include "rendezvous/log/log.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;

/// Most bytes that a report quotes of all workers' error files together, so that it fits into one frame
/// whatever they wrote.
constexpr std::size_t kQuotedBytesMax = 1 << 20;
/// The same for what workers did that had to be killed.
constexpr std::size_t kPicturesBytesMax = 1 << 20;

/// Longest time between the signal of a watchdog timer and the end of a worker that counts as its effect.
constexpr std::chrono::seconds kEndsByWatchdogWithin{5};

std::optional<ProcessStat> process_below(pid_t worker, int pid) {
  for (const ProcessStat& process : descendants_of(worker))
    if (process.pid == pid) return process;
  return std::nullopt;
}

/// Sends a signal to the process below a worker, or to the worker where there is none.
void send(int signal, pid_t worker, const std::optional<ProcessStat>& process) {
  if (process)
    signal_process(*process, signal);
  else
    ::kill(worker, signal);
}

std::string signal_words(const ExpiredTimer& timer) {
  return timer.signal != 0 ? "; it gets " + signal_name(timer.signal) : "; its program wants no signal sent";
}

std::string no_owner_words(const ExpiredTimer& timer) {
  return "a watchdog timer of process " + std::to_string(timer.pid) +
         " expired, which is no process of this node's workers (any more)";
}

std::string no_watchdog_words(const std::string& why) {
  return "no watchdog, which TORCHELASTIC_ENABLE_FILE_TIMER=1 asks for: " + why +
         "; see TORCHELASTIC_TIMER_FILE and TMPDIR";
}

}  // namespace

RoundRunner::RoundRunner(const boost::asio::any_io_executor& executor, const AgentSpec& spec,
                         WorkerOutput& output, const SignalState& signals, const BindingPlan& binding,
                         StopFile& stop_file, Events events)
    : executor_(executor),
      spec_(spec),
      output_(output),
      signals_(signals),
      binding_(binding),
      stop_file_(stop_file),
      events_(std::move(events)),
      group_(spec.workers, spec.shutdown_timeout),
      workers_(static_cast<std::size_t>(spec.workers)),
      timer_(executor),
      // Of several nodes the coordinator takes the first that says that it has failed: nothing is held back.
      ends_(executor, spec.limits.max_nodes <= 1, end_events()),
      children_(executor, SIGCHLD),
      calls_(executor, spec.workers, spec.report_after, [this] { return group_.running(); }),
      health_(executor, spec.limits.hang_timeout, output, calls_, events_.rank_news),
      stop_(executor, spec.host, spec.stop_groups, [this] { return living(); }) {}

EndQueue::Events RoundRunner::end_events() {
  EndQueue::Events events;
  events.running = [this] { return group_.running(); };
  events.living = [this] {
    std::vector<pid_t> pids;
    for (const WorkerStop::Worker& worker : living()) pids.push_back(worker.pid);
    return pids;
  };
  events.judge = [this](const std::vector<WorkerEnd>& ends) { judge(ends); };
  return events;
}

void RoundRunner::start(const rendezvous::RoundResult& place, int restarts, const Environment& inherited) {
  place_ = place;
  stop_file_.vanish();
  memory_.begin(read_memory_counts_before());
  watch_children();
  calls_.start(place.round, events_.rank_news);
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
  const std::string on_host = NodeTraits(spec_).on_host;
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
  ChildSpec child;
  try {
    const std::string status_file = calls_.make(local_rank, place.first_rank + local_rank, place.world_size);
    child.environment =
        worker_environment(spec_, place, local_rank, restarts, worker.streams.error_file, inherited,
                           status_file, watchdog_ ? watchdog_->path() : "", stop_file_.path());
    health_.prepare(child.environment, stop_file_.folder(), place, local_rank);
    worker.gpu = variable_or(child.environment, "CUDA_VISIBLE_DEVICES", "");
    child.arguments = worker_arguments(spec_, local_rank);
    const std::string path = variable_or(child.environment, "PATH", "/usr/local/bin:/usr/bin:/bin");
    child.program = find_program(child.arguments.front(), path);
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
    calls_.started(local_rank, worker.pid);
    health_.started(place, local_rank, worker.pid);
    output_.started(local_rank);
    watch(local_rank);
  } catch (const std::system_error& error) {
    const NotStarted why = why_not_started(error, spec_.command.front(), child.program, on_host);
    start_failed(local_rank, why.exit_code, why.text);
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
  first_failure_ = failure_of(place_, spec_.host, local_rank, status, cause);
  // What the worker had printed by its end has been read, unless console or disk were full.
  const Worker& worker = workers_[static_cast<std::size_t>(local_rank)];
  const WorkerError error = parse_error_file(read_error_file(worker.streams.error_file));
  first_failure_.error_line =
      worker.start_error.empty() ? error_line(error, output_.last_lines(local_rank)) : worker.start_error;
  first_failure_.stepped = std::any_of(calls_.picture().ranks.begin(), calls_.picture().ranks.end(),
                                       [](const auto& entry) { return entry.second.step > 0; });
  if (events_.failed) events_.failed(first_failure_);
}

void RoundRunner::watch(int local_rank) {
  // Pidfds become readable in the order in which their processes ended.
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
  health_.ended(local_rank, end->status.success());
  worker.ended_at_ms = wall_clock_ms();
  ends_.add(*end);
}

void RoundRunner::judge(const std::vector<WorkerEnd>& ends) {
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
    calls_.take_picture(place_.first_rank + local_rank);
    if (worker.watchdog.empty() && worker.cpu_limit_s == 0 && !group_.killing())
      judge_memory(local_rank, status);
    const std::string& why = worker.watchdog.empty() ? worker.memory.why : worker.watchdog;
    tell_failure(local_rank, status, describe(status) + (why.empty() ? "" : ": " + why));
  }
  if (events_.worker_ended)
    events_.worker_ended(end_event(place_, end, worker.pid, worker.output_goes_on, worker.memory.why));
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

/// Reaps adopted processes. Workers are left to on_exit(), which keeps their order; it calls this again.
Orphans RoundRunner::reap_orphans() {
  const auto lives = [this](pid_t pid) {
    return std::ranges::any_of(workers_, [pid](const Worker& one) { return one.pidfd && one.pid == pid; });
  };
  return agent::reap_orphans(lives, [this](pid_t pid, bool by_itself) { stop_.reaped(pid, by_itself); });
}

void RoundRunner::look_for_end() {
  if (group_.over()) return;
  const Orphans reaped = reap_orphans();
  if (group_.ended_count() < spec_.workers) return stop_.look_soon();
  if (!reaped.children_left)
    apply(group_.descendants_gone());
  else if (reaped.any || reaped.met_kept)
    stop_.look_soon();
}

void RoundRunner::watch_timers(const Environment& inherited) {
  const std::optional<std::string> wish = watchdog_pipe(spec_, inherited);
  if (!wish) return;
  try {
    watchdog_ = std::make_unique<Watchdog>(executor_, *wish,
                                           [this](const ExpiredTimer& timer) { timer_expired(timer); });
    log_info("timers of the watchdog are taken at " + watchdog_->path());
  } catch (const std::exception& error) {
    watchdog_error_ = no_watchdog_words(error.what());
  }
}

/// Sends an expired timer's signal, but only to processes of the job's workers: who writes a number into the
/// pipe may not end anything else.
void RoundRunner::timer_expired(const ExpiredTimer& timer) {
  if (!group_.running()) return;  // from now on the grace period counts
  for (int local_rank = 0; local_rank < spec_.workers; ++local_rank) {
    Worker& worker = workers_[static_cast<std::size_t>(local_rank)];
    if (!alive(local_rank)) continue;
    const bool itself = worker.pid == timer.pid;
    const auto process = itself ? std::nullopt : process_below(worker.pid, timer.pid);
    if (!itself && !process) continue;
    const std::string text = describe(timer, place_.first_rank + local_rank, itself);
    log_warning(text + signal_words(timer));
    if (timer.signal == 0) return;
    pictures_.take({{local_rank, worker.pid, true}}, WorkerPictures::kBeforeKillAtOnce);
    worker.watchdog = text;
    worker.watchdog_at = std::chrono::steady_clock::now();
    send(timer.signal, worker.pid, process);
    return;
  }
  log_info(no_owner_words(timer));
}

void RoundRunner::stop(int signal, const StopOrder& order) {
  ends_.judge();
  if (!order.reason.empty()) stop_reason_ = order.reason;
  calls_.take_picture(-1);
  apply(group_.stop(signal, Clock::now(), order.grace));
}

void RoundRunner::kill() {
  ends_.judge();
  calls_.take_picture(-1);
  if (!group_.killing() && !group_.over()) look_before_kill(WorkerPictures::kBeforeKillAtOnce);
  apply(group_.kill_now(Clock::now()));
}

/// Notes where the workers are that have not ended by themselves, once; and what the others left running.
void RoundRunner::look_before_kill(std::chrono::milliseconds at_most) {
  std::vector<WorkerPictures::Worker> workers;
  for (int rank = 0; const Worker& one : workers_) workers.push_back({rank++, one.pid, one.pidfd != nullptr});
  pictures_.take(workers, at_most);
}

void RoundRunner::resize() const {
  for (const WorkerStop::Worker& worker : living()) ::kill(-worker.pid, SIGWINCH);
}

void RoundRunner::apply(const GroupActions& actions) {
  if (actions.signal_workers != 0) {
    output_.name_ranks();
    // Programs that poll know before any signal could end them.
    stop_file_.appear(stop_notice(stop_reason_, first_failure_, spec_.shutdown_timeout));
    stop_.signal(actions.signal_workers, *group_.kill_at());
  }
  // Usually no process is left, which is known without reading /proc; look_for_end() follows.
  if (actions.end_leftovers && reap_orphans().children_left) stop_.end_leftovers();
  if (actions.kill_workers) look_before_kill(WorkerPictures::kBeforeKill);
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
    calls_.cancel();
    children_.cancel();
    watchdog_.reset();
    memory_note_ = may_have_killed_since(memory_.before()) ? memory_.note(read_memory_counts()) : "";
    if (!memory_note_.empty()) log_warning(memory_note_ + NodeTraits(spec_).on_host);
    events_.over();
  }
}

std::vector<WorkerStop::Worker> RoundRunner::living() const {
  std::vector<WorkerStop::Worker> found;
  int rank = place_.first_rank - 1;
  for (const Worker& worker : workers_)
    if (++rank; worker.pidfd && worker.pid > 1) found.push_back({rank, worker.pid});
  return found;
}

void RoundRunner::describe_round(NodeReport& report) const {
  report.round = place_.round;
  report.node_rank = place_.node_rank;
  report.restarts = place_.restarts;
  report.workers = reports();
  report.calls = calls_.picture().lines;
  report.leftovers = stop_.leftovers();
  report.outcome = node_outcome(outcome());
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
    if (const auto call = calls_.picture().ranks.find(report.rank); call != calls_.picture().ranks.end())
      report.call = call->second;
    report.last_lines = output_.last_lines(local_rank);
    report.before_kill =
        pictures_.of(local_rank, report.status.killed(), share_of(kPicturesBytesMax, workers_.size()));
    add_error(report, worker.streams.error_file, share_of(kQuotedBytesMax, workers_.size()));
    reports.push_back(std::move(report));
  }
  return reports;
}

WorkerNow RoundRunner::worker_now(int local_rank) const {
  const Worker& worker = workers_[static_cast<std::size_t>(local_rank)];
  WorkerNow now{place_.first_rank + local_rank, worker.pid, alive(local_rank)};
  if (group_.ended(local_rank)) now.status = group_.status(local_rank);
  now.slot = calls_.status_of(local_rank);
  now.health = health_.health_of(local_rank);
  now.last_output = output_.last_output(local_rank);
  now.gpu = worker.gpu;
  return now;
}

std::string RoundRunner::unkillable() const {
  return group_.unkillable() ? list_processes(descendants_of(::getpid())) : std::string();
}

}  // namespace muster::agent
