// SPDX-License-Identifier: Apache-2.0
#include "agent/process/status_watch.hpp"

#include "muster/error.hpp"
#include "worker_sdk/status/status_writer.hpp"

#include <algorithm>

namespace muster::agent {

std::string StatusWatch::make(int local_rank, int rank, int world_size) {
  Worker& worker = workers_.at(static_cast<std::size_t>(local_rank));
  worker.rank = rank;
  worker.world_size = world_size;
  try {
    worker.file = status::StatusFile::create();
  } catch (const Error&) {
    return {};  // too many open files: the worker makes one of its own
  }
  status::reserve(worker.file->page(), {rank, world_size, 0});
  return worker.file->address().to_text();
}

void StatusWatch::started(int local_rank, pid_t pid) {
  workers_.at(static_cast<std::size_t>(local_rank)).pid = pid;
}

bool StatusWatch::in_use() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.file && status::is_claimed(worker.file->page());
  });
}

std::vector<status::RankView> StatusWatch::read() const {
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

void StatusWatch::look_at_processes(std::vector<status::RankView>& ranks) {
  for (status::RankView& view : ranks) {
    const status::ProcessLook look = status::look_at(view.pid);
    const bool another = view.status.phase != status::ProcessPhase::unclaimed && look.start_time != 0 &&
                         look.start_time != view.status.start_time;
    view.process = another ? status::ProcessState::gone : look.state;
  }
}

std::vector<std::vector<status::RecentCall>> StatusWatch::recent_calls(std::size_t limit) const {
  std::vector<std::vector<status::RecentCall>> calls;
  for (const Worker& worker : workers_)
    if (worker.file) calls.push_back(status::read_recent(worker.file->page(), limit));
  return calls;
}

}  // namespace muster::agent
