// SPDX-License-Identifier: Apache-2.0
#include "agent/process/worker_stop.hpp"

#include "agent/core/exit_status.hpp"
#include "agent/core/worker_group.hpp"
#include "agent/process/process_tree.hpp"
#include "agent/process/signal_evidence.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/log/log.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;

/// A process that takes longer than this to end is named, so that nobody wonders what is waited for.
constexpr std::chrono::seconds kWorkersNoticeAfter{2};
constexpr std::chrono::seconds kLeftoversNoticeAfter{1};

/// Returns the present time as /proc counts the starts of processes.
std::uint64_t ticks_since_boot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const auto per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  constexpr std::uint64_t kNanoseconds = 1'000'000'000;
  return static_cast<std::uint64_t>(now.tv_sec) * per_second +
         static_cast<std::uint64_t>(now.tv_nsec) * per_second / kNanoseconds;
}

std::vector<ProcessStat> stats_of(const std::vector<WorkerStop::Worker>& workers) {
  std::vector<ProcessStat> stats;
  for (const WorkerStop::Worker& worker : workers)
    if (auto stat = read_process_stat(worker.pid)) stats.push_back(std::move(*stat));
  return stats;
}

/// Returns a text such as "rank 3" or "ranks 0-2, 5".
std::string named(std::vector<int> ranks) {
  const std::string several = ranks.size() == 1 ? "rank " : "ranks ";
  return several + rank_list(std::move(ranks));
}

std::string ranks_of(const std::vector<WorkerStop::Worker>& workers) {
  std::vector<int> ranks;
  ranks.reserve(workers.size());
  for (const WorkerStop::Worker& worker : workers) ranks.push_back(worker.rank);
  return named(std::move(ranks));
}

/// Returns all processes below this one, or none where no worker waits for a child: to look at every process
/// of the machine takes milliseconds, which a stop saves then.
std::vector<ProcessStat> tree_if_any_waits(const std::vector<ProcessStat>& workers) {
  const bool any = std::any_of(workers.begin(), workers.end(), [](const ProcessStat& worker) {
    const ChildWait::Kind kind = read_child_wait(worker).kind;
    return kind != ChildWait::Kind::none;
  });
  return any ? descendants_of(::getpid()) : std::vector<ProcessStat>();
}

}  // namespace

WorkerStop::WorkerStop(const boost::asio::any_io_executor& executor, std::string host, bool whole_groups,
                       std::function<std::vector<Worker>()> living)
    : host_(std::move(host)),
      whole_groups_(whole_groups),
      living_(std::move(living)),
      route_(::getpid(), read_child_wait, read_signal_sets),
      timer_(executor),
      notice_(executor),
      leftovers_notice_(executor) {}

void WorkerStop::signal(int signal, Clock::time_point kill_at) {
  const std::vector<Worker> workers = living_();
  if (whole_groups_) {
    for (const Worker& worker : workers) ::kill(-worker.pid, signal);
  } else {
    const std::vector<ProcessStat> stats = stats_of(workers);
    const bool again = kill_at_ != Clock::time_point();
    send(route_.stop(signal, stats, again ? descendants_of(::getpid()) : tree_if_any_waits(stats),
                     ticks_since_boot()));
  }
  for (const Worker& worker : workers) ::kill(-worker.pid, SIGCONT);
  look_after(kLookInterval);
  if (std::exchange(kill_at_, kill_at) != Clock::time_point()) return;
  notice_.expires_after(kWorkersNoticeAfter);
  notice_.async_wait([this](const boost::system::error_code& error) {
    if (!error && looking_) say_who_still_runs();
  });
}

void WorkerStop::look_after(std::chrono::milliseconds time) {
  looking_ = true;
  timer_.expires_after(time);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || !looking_) return;
    look();
    look_after(kLookInterval);
  });
}

void WorkerStop::look_soon() {
  if (looking_) look_after(std::chrono::milliseconds(0));
}

void WorkerStop::look() {
  const std::vector<Worker> workers = living_();
  send(route_.look(stats_of(workers), descendants_of(::getpid()), workers.empty()));
}

void WorkerStop::send(const std::vector<StopRoute::Delivery>& deliveries) {
  for (const StopRoute::Delivery& one : deliveries) {
    if (one.leftover) add_leftover(one.to);
    if (one.group)
      ::kill(-one.to.pid, one.signal);
    else
      signal_process(one.to, one.signal);
    signal_process(one.to, SIGCONT);
  }
}

void WorkerStop::end_leftovers() {
  look();
  look_after(kLookInterval);
  leftovers_notice_.expires_after(kLeftoversNoticeAfter);
  leftovers_notice_.async_wait([this](const boost::system::error_code& error) {
    if (!error && looking_) say_leftovers();
  });
}

void WorkerStop::add_leftover(const ProcessStat& process) {
  const auto sets = read_signal_sets(process);
  leftovers_.push_back({process.pid, std::to_string(process.pid) + " " + process.name,
                        sets && sets->ignores(SIGTERM), Clock::now()});
}

void WorkerStop::say_who_still_runs() const {
  const std::vector<Worker> workers = living_();
  const auto left = std::chrono::ceil<std::chrono::seconds>(kill_at_ - Clock::now());
  if (workers.empty() || left.count() <= 0) return;
  log_warning(ranks_of(workers) + " on " + host_ + " still " + (workers.size() == 1 ? "runs" : "run") +
              "; SIGKILL comes in " + std::to_string(left.count()) +
              " s (--shutdown-timeout), at once with a second Ctrl-C");
}

void WorkerStop::say_leftovers() const {
  const std::string names = list_processes(descendants_of(::getpid()));
  if (!names.empty())
    log_warning("the workers have ended, but left processes running: " + names +
                "; they were told to end, and get SIGKILL when the grace period (--shutdown-timeout) ends");
}

bool WorkerStop::kill_workers() {
  looking_ = false;
  const std::vector<Worker> workers = living_();
  if (!workers.empty()) log_warning("killing " + ranks_of(workers) + " on " + host_ + " (SIGKILL)");
  for (const Worker& worker : workers) ::kill(worker.pid, SIGKILL);
  const std::vector<ProcessStat> stand_ins = route_.stand_ins(descendants_of(::getpid()));
  for (const ProcessStat& process : stand_ins) signal_process(process, SIGKILL);
  return !workers.empty() || !stand_ins.empty();
}

/// Kills everything, and counts as left over what was told to end and is still there, whoever left it.
void WorkerStop::kill_all() {
  const std::vector<Worker> workers = living_();  // the kernel takes long to tear some of them down
  for (const ProcessStat& process : kill_descendants()) {
    if (std::any_of(workers.begin(), workers.end(),
                    [&](const Worker& one) { return one.pid == process.pid; }))
      continue;
    const bool known = std::any_of(leftovers_.begin(), leftovers_.end(),
                                   [&](const Leftover& one) { return one.pid == process.pid; });
    if (!known && process.parent == ::getpid() && route_.told(process)) add_leftover(process);
  }
}

void WorkerStop::cancel() {
  looking_ = false;
  for (auto* timer : {&timer_, &notice_, &leftovers_notice_}) timer->cancel();
}

/// Returns the ranks of the workers of which a process got the signal.
std::vector<int> WorkerStop::deliver(int signal, const std::vector<Worker>& workers, bool to_handlers_only) {
  const std::vector<ProcessStat> stats = stats_of(workers);
  const std::vector<ProcessStat> tree = tree_if_any_waits(stats);
  std::vector<int> got;
  for (const ProcessStat& stat : stats) {
    std::vector<ProcessStat> route = notice_route(stat, signal, tree, read_child_wait, read_signal_sets);
    if (route.empty() && !to_handlers_only) route.push_back(stat);
    bool sent = false;
    for (const ProcessStat& process : route) sent = signal_process(process, signal) || sent;
    if (!sent) continue;
    for (const Worker& worker : workers)
      if (worker.pid == stat.pid) got.push_back(worker.rank);
  }
  return got;
}

std::vector<int> WorkerStop::pass_notice_on(int signal) {
  const std::vector<Worker> workers = living_();
  if (workers.empty()) {
    log_warning("no worker runs on " + host_ + "; nobody got " + signal_name(signal));
    return {};
  }
  std::vector<int> got = deliver(signal, workers, true);
  std::vector<int> without;
  for (const Worker& worker : workers)
    if (std::find(got.begin(), got.end(), worker.rank) == got.end()) without.push_back(worker.rank);
  const std::vector<int> to_name = unheard_.to_name(signal, without);
  if (!to_name.empty())
    log_warning(named(to_name) + " on " + host_ + (to_name.size() == 1 ? " does" : " do") + " not handle " +
                signal_name(signal) + " and did not get it");
  return got;
}

std::vector<int> WorkerStop::signal_ranks(int signal, const std::vector<int>& ranks) const {
  std::vector<Worker> chosen = living_();
  std::erase_if(chosen, [&](const Worker& worker) {
    return std::find(ranks.begin(), ranks.end(), worker.rank) == ranks.end();
  });
  return deliver(signal, chosen, false);
}

void WorkerStop::reaped(pid_t pid, bool by_itself) {
  if (!by_itself) return;
  const auto now = Clock::now();
  std::erase_if(leftovers_, [&](const Leftover& one) {
    return one.pid == pid && one.ignores_term && now - one.told_at <= WorkerGroup::kHelperTime;
  });
}

std::vector<std::string> WorkerStop::leftovers() const {
  std::vector<std::string> texts;
  texts.reserve(leftovers_.size());
  for (const Leftover& one : leftovers_) texts.push_back(one.text);
  return texts;
}

}  // namespace muster::agent
