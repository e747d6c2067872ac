// SPDX-License-Identifier: Apache-2.0
#include "agent/process/call_watch.hpp"

#include "muster/error.hpp"
#include "rendezvous/log/log.hpp"
#include "worker_sdk/status/describe_wait.hpp"
#include "worker_sdk/status/status_writer.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace muster::agent {
namespace {

constexpr std::chrono::seconds kLookInterval{1};

/// Asks the kernel what the processes do.
void look_at_processes(std::vector<status::RankView>& ranks) {
  for (status::RankView& view : ranks) {
    const status::ProcessLook look = status::look_at(view.pid);
    const bool another = view.status.phase != status::ProcessPhase::unclaimed && look.start_time != 0 &&
                         look.start_time != view.status.start_time;
    view.process = another ? status::ProcessState::gone : look.state;
  }
}

}  // namespace

CallWatch::CallWatch(const boost::asio::any_io_executor& executor, int workers,
                     std::optional<std::chrono::milliseconds> report_after, std::function<bool()> running)
    : workers_(static_cast<std::size_t>(workers)),
      running_(std::move(running)),
      timer_(executor),
      waits_(report_after) {}

std::string CallWatch::make(int local_rank, int rank, int world_size) {
  Worker& worker = workers_.at(static_cast<std::size_t>(local_rank));
  worker.rank = rank;
  worker.world_size = world_size;
  worker.pace = PaceMeter(round_, rank);
  try {
    worker.file = status::StatusFile::create();
  } catch (const Error&) {
    return {};  // too many open files: the worker makes one of its own
  }
  status::reserve(worker.file->page(), {rank, world_size, 0});
  return worker.file->address().to_text();
}

void CallWatch::started(int local_rank, pid_t pid) {
  workers_.at(static_cast<std::size_t>(local_rank)).pid = pid;
}

void CallWatch::start(rendezvous::RoundNumber round, std::function<void(const rendezvous::RankPace&)> pace) {
  pace_ = std::move(pace);
  round_ = round;
  wait();
}

void CallWatch::wait() {
  timer_.expires_after(kLookInterval);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    look();
    wait();
  });
}

void CallWatch::look() {
  if (!running_() || !in_use()) return;
  std::vector<status::RankView> ranks = read();
  const std::uint64_t now = status::monotonic_ns();
  tell_paces(ranks, now);
  const std::vector<status::Wait> waits = waits_.due(ranks, now);
  if (waits.empty()) return;
  look_at_processes(ranks);
  for (const status::Wait& wait : waits) log_warning(status::describe(wait, ranks, now));
}

void CallWatch::tell_paces(const std::vector<status::RankView>& ranks, std::uint64_t now_ns) {
  if (!pace_ || looks_++ % seconds_between_paces(ranks.front().world_size) != 0) return;
  for (const status::RankView& view : ranks) {
    const auto worker = std::find_if(workers_.begin(), workers_.end(),
                                     [&view](const Worker& one) { return one.rank == view.rank; });
    if (worker == workers_.end()) continue;
    if (const auto pace = worker->pace.add(view.status, now_ns)) pace_(*pace);
  }
}

/// Whether any worker has taken its file. Costs a few loads.
bool CallWatch::in_use() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.file && status::is_claimed(worker.file->page());
  });
}

std::optional<status::RankStatus> CallWatch::status_of(int local_rank) const {
  const Worker& worker = workers_.at(static_cast<std::size_t>(local_rank));
  if (!worker.file || !status::is_claimed(worker.file->page())) return std::nullopt;
  return status::read_status(worker.file->page());
}

/// Returns the status of all workers that have a file; the states of the processes are left unknown.
std::vector<status::RankView> CallWatch::read() const {
  std::vector<status::RankView> ranks;
  for (const Worker& worker : workers_) {
    if (!worker.file) continue;
    status::RankView view;
    view.rank = worker.rank;
    view.world_size = worker.world_size;
    view.status = status::read_status(worker.file->page());
    view.pid = view.status.phase == status::ProcessPhase::unclaimed ? worker.pid : view.status.pid;
    ranks.push_back(std::move(view));
  }
  return ranks;
}

void CallWatch::take_picture(int failed) {
  if (pictured_ || !running_()) return;
  pictured_ = true;
  std::vector<status::RankView> ranks = read();
  look_at_processes(ranks);
  std::vector<std::vector<status::RecentCall>> recent;
  for (const Worker& worker : workers_)
    if (worker.file) recent.push_back(status::read_recent(worker.file->page(), kRecentCallsMax));
  picture_ = make_call_report(ranks, recent, failed, status::monotonic_ns());
}

}  // namespace muster::agent
