// SPDX-License-Identifier: Apache-2.0
#include "agent/core/signal_route.hpp"

#include <algorithm>
#include <csignal>
#include <set>

namespace muster::agent {
namespace {

std::vector<ProcessStat> awaited_children(const ProcessStat& parent, const ChildWait& wait,
                                          const std::vector<ProcessStat>& tree) {
  std::vector<ProcessStat> children;
  for (const ProcessStat& process : tree)
    if (process.parent == parent.pid && wait.covers(process)) children.push_back(process);
  return children;
}

bool contains(const std::vector<ProcessStat>& processes, pid_t pid) {
  return std::any_of(processes.begin(), processes.end(),
                     [pid](const ProcessStat& one) { return one.pid == pid; });
}

}  // namespace

bool ChildWait::covers(const ProcessStat& child) const {
  switch (kind) {
    case Kind::one:
      return child.pid == pid;
    case Kind::group:
      return child.group == pid;
    case Kind::any:
      return true;
    case Kind::unreadable:
    case Kind::none:
      break;
  }
  return false;
}

std::vector<ProcessStat> notice_route(const ProcessStat& worker, int signal,
                                      const std::vector<ProcessStat>& tree, const WaitOf& wait_of,
                                      const SetsOf& sets_of) {
  std::vector<ProcessStat> found;
  std::vector<ProcessStat> asked{worker};
  while (!asked.empty()) {
    const ProcessStat process = asked.back();
    asked.pop_back();
    if (const auto sets = sets_of(process); sets && sets->catches(signal)) {
      found.push_back(process);
      continue;
    }
    for (ProcessStat& child : awaited_children(process, wait_of(process), tree))
      asked.push_back(std::move(child));
  }
  return found;
}

std::vector<StopRoute::Delivery> StopRoute::stop(int signal, const std::vector<ProcessStat>& workers,
                                                 const std::vector<ProcessStat>& tree, std::uint64_t now) {
  if (signal_ == 0) began_ = now;
  signal_ = signal;
  std::vector<Delivery> out;
  for (const ProcessStat& worker : workers) {
    sessions_[worker.pid] = id_of(worker);
    ask(worker, signal, true, tree, out);
  }
  // The wrappers of these processes have ended, so that nobody but us passes the new signal on to them.
  for (const ProcessStat& stand_in : stand_ins(tree))
    if (stand_in.parent == agent_) ask(stand_in, signal, true, tree, out);
  remember_children(tree);
  return out;
}

void StopRoute::ask(const ProcessStat& process, int signal, bool as_worker,
                    const std::vector<ProcessStat>& tree, std::vector<Delivery>& out) {
  const ChildWait wait = wait_of_(process);
  const bool is_new = deliver(process, signal, as_worker, out);
  if (is_new && as_worker && wait.kind == ChildWait::Kind::unreadable && process.pid == process.group) {
    out.back().group = true;
    std::vector<Delivery> with_it;  // one system call tells all of them
    for (const ProcessStat& member : tree)
      if (member.group == process.group) deliver(member, signal, false, with_it);
  }
  ask_awaited(process, signal, as_worker, wait, tree, out);
}

void StopRoute::ask_awaited(const ProcessStat& parent, int signal, bool as_worker, const ChildWait& wait,
                            const std::vector<ProcessStat>& tree, std::vector<Delivery>& out) {
  for (const ProcessStat& child : awaited_children(parent, wait, tree))
    if (signal_ == 0 || child.start_time <= began_) ask(child, signal, as_worker, tree, out);
}

bool StopRoute::deliver(const ProcessStat& process, int signal, bool as_worker, std::vector<Delivery>& out) {
  Told& told = told_[id_of(process)];
  told.asked_as_worker = told.asked_as_worker || as_worker;
  const std::uint64_t bit = std::uint64_t{1} << signal;
  if ((told.signals & bit) != 0) return false;
  told.signals |= bit;
  told.last = signal;
  out.push_back({process, signal, false, false});
  return true;
}

std::vector<StopRoute::Delivery> StopRoute::look(const std::vector<ProcessStat>& workers,
                                                 const std::vector<ProcessStat>& tree, bool all_ended) {
  std::vector<Delivery> out;
  for (const ProcessStat& process : tree) {
    const auto told = told_.find(id_of(process));
    const bool stands_for_worker = told != told_.end() && told->second.asked_as_worker;
    if (told != told_.end() && signal_ != 0)
      ask_awaited(process, told->second.last, stands_for_worker, wait_of_(process), tree, out);
    if (process.parent != agent_ || contains(workers, process.pid)) continue;
    if (stands_for_worker) {
      // A shell starts its background commands with SIGINT ignored.
      const auto sets = all_ended ? sets_of_(process) : std::nullopt;
      if (sets && sets->ignores(told->second.last)) ask(process, SIGTERM, true, tree, out);
      continue;
    }
    const bool left = signal_ != 0 && left_by_told(process, workers);
    if (left) ask(process, signal_, false, tree, out);
    if (!all_ended) continue;
    const std::size_t before = out.size();
    ask(process, SIGTERM, false, tree, out);
    if (out.size() > before && out[before].to.pid == process.pid) out[before].leftover = !left;
  }
  remember_children(tree);
  return out;
}

/// Whether an orphan was left by somebody who was told: by a parent that was told, or by a worker that has
/// ended and in whose session the orphan is.
bool StopRoute::left_by_told(const ProcessStat& orphan, const std::vector<ProcessStat>& workers) const {
  if (children_of_told_.count(id_of(orphan)) != 0) return true;
  const auto session = sessions_.find(orphan.session);
  return session != sessions_.end() && !contains(workers, orphan.session);
}

void StopRoute::remember_children(const std::vector<ProcessStat>& tree) {
  std::set<pid_t> parents;
  for (const ProcessStat& process : tree)
    if (told(process)) parents.insert(process.pid);
  for (const ProcessStat& process : tree)
    if (parents.count(process.parent) != 0) children_of_told_.insert(id_of(process));
}

std::vector<ProcessStat> StopRoute::stand_ins(const std::vector<ProcessStat>& tree) const {
  std::vector<ProcessStat> found;
  for (const ProcessStat& process : tree)
    if (const auto told = told_.find(id_of(process)); told != told_.end() && told->second.asked_as_worker)
      found.push_back(process);
  return found;
}

}  // namespace muster::agent
