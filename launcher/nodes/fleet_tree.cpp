// SPDX-License-Identifier: Apache-2.0
// The part of NodeFleet that has hosts start other hosts (--ssh-tree).
#include "launcher/nodes/fleet_state.hpp"
#include "launcher/start/core/start_times.hpp"

#include <exception>
#include <string>
#include <utility>

namespace muster::launcher {
namespace {

/// Named in a text; of more only the number.
constexpr std::size_t kNamed = 4;

}  // namespace

void NodeFleet::State::client_ended(std::size_t index, const StartEnd& end, bool had_greeting) {
  if (const auto found = trunks.find(index); found != trunks.end())
    return found->second.trunk->client_ended(end);
  process_ended(index, end, had_greeting);
}

void NodeFleet::State::open_trunk(std::size_t index, LinkEnds ends) {
  queue->admitted(index, Clock::now());
  // start_node() has made it.
  std::unique_ptr<NodeConnection> client(static_cast<NodeConnection*>(nodes[index].connection.release()));
  const BranchPlan plan = starter.branch(index);
  std::unique_ptr<Trunk> trunk;
  try {
    trunk = std::make_unique<Trunk>(executor, plan, std::move(client), std::move(ends), trunk_events(index));
  } catch (const std::exception& error) {
    return start_failed(index, {std::string("it cannot be told whom to start: ") + error.what(),
                                "give a larger --ssh-tree, so that each login leads to fewer hosts", false});
  }
  const std::chrono::milliseconds login = job.remote.login_timeout;
  const auto width = static_cast<std::size_t>(job.remote.ssh_tree);
  const auto overall = tree_limit(login, width, starter.tree().levels(index), !starter.push_file().empty());
  const TrunkWatch watch(Clock::now(), silence_limit(login, width), overall);
  for (const BranchPlan::Node& there : plan.nodes) {
    nodes[there.index].connection = trunk->connection(there.index);
    nodes[there.index].greet_by = TimePoint::max();
  }
  const auto& below = trunks.emplace(index, Below{std::move(trunk), watch}).first->second;
  if (board.stopping()) below.trunk->halt();
  advance();
}

Trunk::Events NodeFleet::State::trunk_events(std::size_t root) {
  Trunk::Events there;
  const std::weak_ptr<State> weak = weak_from_this();
  there.starting = [weak, root](std::size_t index) {
    if (const auto self = weak.lock()) self->started_there(root, index);
  };
  there.retrying = [weak, root](std::size_t index, const std::string& cause) {
    const auto self = weak.lock();
    if (!self || self->nodes[index].unwanted) return;
    self->progress(root);
    if (self->board.stopping()) return self->start_failed(index, {cause, "", false});
    self->board.retrying(index, cause);
  };
  there.pushed = [weak, root](std::size_t index, std::uint64_t bytes, std::uint64_t of) {
    if (const auto self = weak.lock()) self->pushed_there(root, index, bytes, of);
  };
  there.greeted = [weak, root](std::size_t index, const std::string& its_version,
                               std::unique_ptr<agent::ByteTransport> transport) {
    const auto self = weak.lock();
    if (!self || self->nodes[index].unwanted) return;
    self->progress(root);
    self->greeted(index, its_version, std::move(transport), {});
  };
  there.said = [weak](std::size_t index, const std::string& line) {
    if (const auto self = weak.lock()) self->said(index, line);
  };
  there.ended = [weak, root](std::size_t index, const StartEnd& end, bool had_greeting) {
    const auto self = weak.lock();
    if (!self) return;
    self->progress(root);
    self->nodes[index].greet_by.reset();
    if (!self->nodes[index].unwanted) self->process_ended(index, end, had_greeting);
  };
  return there;
}

void NodeFleet::State::started_there(std::size_t root, std::size_t index) {
  progress(root);
  if (index == root) return;  // its start began with the login
  const bool again = nodes[index].begun_there;
  nodes[index].begun_there = true;
  if (!board.stopping()) return board.starting(index, Clock::now());
  if (again) return;
  // The order to start no more has not come there yet.
  nodes[index].unwanted = true;
  nodes[index].greet_by.reset();
  nodes[index].connection->kill();
}

void NodeFleet::State::pushed_there(std::size_t root, std::size_t index, std::uint64_t bytes,
                                    std::uint64_t of) {
  if (starter.push_file().empty()) return;
  trunks.at(root).watch.copying(Clock::now());
  board.copying(index, bytes, of);
}

void NodeFleet::State::give_up_below(std::size_t root) {
  Below& below = trunks.at(root);
  below.watch.given_up();
  for (const std::size_t index : starter.tree().subtree(root)) {
    if (!nodes[index].greet_by) continue;
    nodes[index].greet_by.reset();
    nodes[index].connection->give_up();
  }
}

std::string NodeFleet::State::below_text(std::size_t index) const {
  const StartTree& tree = starter.tree();
  std::size_t root = index;
  while (tree.parent(root) != StartTree::kNobody) root = static_cast<std::size_t>(tree.parent(root));
  const bool reached = trunks.contains(root);
  std::string names;
  std::size_t count = 0;
  for (const std::size_t below : tree.subtree(index)) {
    // Once there is a login, some may have been started.
    if (below == index || (reached && !nodes[below].greet_by)) continue;
    if (++count <= kNamed) names += (count == 1 ? "" : ", ") + job.nodes[below].name;
  }
  if (count > kNamed) names += " and " + std::to_string(count - kNamed) + " more";
  return names.empty() ? "" : " (it was to start " + names + ")";
}

void NodeFleet::State::fail_those_below(std::size_t index) {
  if (trunks.contains(index) || starter.tree().parent(index) != StartTree::kNobody) return;
  for (const std::size_t below : starter.tree().subtree(index)) {
    if (below == index) continue;
    StartEnd end;
    end.lost_through = job.nodes[index].name;
    const StartFailure failure = starter.explain(below, end);
    without(below, [&] {
      return board.start_failed(below, {"", failure.cause, failure.advice, false}, Clock::now());
    });
  }
}

}  // namespace muster::launcher
