// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/core/node_board.hpp"

#include "launcher/core/job_orders.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <algorithm>
#include <utility>

namespace muster::launcher {
namespace {

/// Most nodes that a waiting text names; of more it gives only the number.
constexpr std::size_t kNamed = 8;

using Phase = RemoteNode::Phase;
using Event = RemoteNode::Event;
using Action = RemoteNode::Action;

}  // namespace

NodeBoard::NodeBoard(const std::vector<NodePlan>& plans, std::size_t needed, bool may_restart,
                     rendezvous::Milliseconds grace)
    : needed_(needed), may_restart_(may_restart), grace_(grace) {
  for (const NodePlan& plan : plans) nodes_.emplace_back(plan.name);
}

NodeBoard::Orders NodeBoard::greeted(std::size_t index) {
  Orders orders;
  nodes_[index].take(Event::hello);
  if (stopping_) {
    cut(index, orders);
    return orders;
  }
  // The coordinator chooses its address by the route to the others, so it comes after them.
  if (index != 0) instruct(index, orders);
  if (complete()) instruct(0, orders);
  return orders;
}

void NodeBoard::instruct(std::size_t index, Orders& orders) {
  if (nodes_[index].severed() || nodes_[index].take(Event::orders) == Action::unexpected) return;
  orders.push_back({Action::send_spec, index});
  if (listening_ && index != 0) orders.push_back({Action::send_coordinator, index});
}

NodeBoard::Orders NodeBoard::listening() {
  Orders orders;
  if (std::exchange(listening_, true)) return orders;
  for (std::size_t i = 1; i < nodes_.size(); ++i)
    if (nodes_[i].awaits_report()) orders.push_back({Action::send_coordinator, i});
  return orders;
}

bool NodeBoard::complete() const {
  std::size_t answered = 0;
  for (const RemoteNode& node : nodes_) {
    // The job begins without nodes that are only wanted, but not before it is known that they cannot be had.
    if (node.phase() < Phase::greeted) return false;
    if (!node.failed()) ++answered;
  }
  return answered >= needed_;
}

void NodeBoard::fail(std::size_t index, HostFailure failure) {
  // A node that we have cut off ourselves has not failed.
  if (nodes_[index].dropped()) return;
  nodes_[index].fail();
  failure.node = nodes_[index].name();
  failures_.push_back(std::move(failure));
}

bool NodeBoard::can_do_without(std::size_t index) const {
  if (index == 0) return false;
  const auto failed =
      std::count_if(nodes_.begin(), nodes_.end(), [](const RemoteNode& node) { return node.failed(); });
  return nodes_.size() - static_cast<std::size_t>(failed) >= needed_;
}

bool NodeBoard::spare(std::size_t index) {
  if (!can_do_without(index)) return false;
  if (!failures_.empty() && failures_.back().node == nodes_[index].name()) failures_.back().spared = true;
  return true;
}

NodeBoard::Orders NodeBoard::start_failed(std::size_t index, HostFailure failure, TimePoint now) {
  Orders orders;
  if (nodes_[index].failed()) return orders;
  nodes_[index].take(Event::failed);
  fail(index, std::move(failure));
  if (stopping_) return orders;
  if (spare(index)) {
    if (complete()) instruct(0, orders);
    return orders;
  }
  cut_at_ = now + kCollectFailuresFor;
  return end_all(Action::stop);
}

NodeBoard::Orders NodeBoard::lost(std::size_t index, HostFailure failure) {
  if (nodes_[index].failed()) return {};
  nodes_[index].take(Event::ended);
  failure.lost = true;
  fail(index, std::move(failure));
  if (stopping_ || spare(index)) return {};
  return end_all(Action::stop);
}

bool NodeBoard::reported(std::size_t index, TimePoint now) {
  if (nodes_[index].take(Event::report) == Action::unexpected) return false;
  nodes_[index].limit(now + end_limit(index));
  // Nobody may need the coordinator any more.
  if (nodes_[0].phase() == Phase::reported) nodes_[0].shorten(now + end_limit(0));
  return true;
}

NodeBoard::Orders NodeBoard::gave_up(std::size_t index) {
  // The node's report says why.
  nodes_[index].fail();
  if (stopping_ || can_do_without(index)) return {};
  return end_all(Action::stop);
}

void NodeBoard::ended(std::size_t index, TimePoint now) {
  nodes_[index].take(Event::ended);
  for (std::size_t i = 1; i < nodes_.size() && index == 0; ++i) nodes_[i].coordinator_ended(now);
}

NodeBoard::Orders NodeBoard::stop() {
  cut_at_.reset();
  return end_all(Action::stop);
}

NodeBoard::Orders NodeBoard::kill() {
  cut_at_.reset();
  return end_all(Action::kill);
}

void NodeBoard::cut(std::size_t index, Orders& orders) {
  nodes_[index].drop();
  orders.push_back({Action::cut, index});
}

/// Orders `kind` for the nodes that can be told, and the cut for those that cannot. Nodes that are being
/// started while failures are collected may have something to say, too, and are left.
NodeBoard::Orders NodeBoard::end_all(Action kind) {
  Orders orders;
  stopping_ = true;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (cut_at_ && nodes_[i].starts()) continue;
    const Action action = nodes_[i].take(Event::stop);
    if (action == Action::cut) cut(i, orders);
    if (action == Action::stop) orders.push_back({kind, i});
  }
  return orders;
}

NodeBoard::Orders NodeBoard::tick(TimePoint now) {
  Orders orders;
  if (!cut_at_ || now < *cut_at_) return orders;
  cut_at_.reset();
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].starts()) cut(i, orders);
  return orders;
}

NodeBoard::Orders NodeBoard::cut_all() {
  Orders orders;
  stopping_ = true;
  cut_at_.reset();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].phase() == Phase::waiting) nodes_[i].take(Event::stop);
    if (nodes_[i].phase() != Phase::over) cut(i, orders);
  }
  return orders;
}

rendezvous::Milliseconds NodeBoard::end_limit(std::size_t index) const {
  if (nodes_[index].phase() != Phase::reported) return grace_ + JobOrders::kReportLateAfter;
  const rendezvous::Milliseconds limit = JobOrders::kGuardianLateAfter;
  const auto needs_coordinator = [](const RemoteNode& node) {
    return node.awaits_report() && !node.severed();
  };
  // Its guardian waits for the coordinator, which other nodes may need for their reports.
  const bool serves = index == 0 && std::any_of(nodes_.begin() + 1, nodes_.end(), needs_coordinator);
  return serves ? limit + grace_ + rendezvous::kDaemonAtMost : limit;
}

bool NodeBoard::over() const {
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [](const RemoteNode& node) { return node.phase() == Phase::over; });
}

std::string NodeBoard::spared_text() const {
  const HostFailure& last = failures_.back();
  const std::string what = last.lost ? lost_text(last) : last.node + " could not be started: " + last.cause;
  // Only the coordinator knows whether workers run already.
  const bool ends_round = last.lost && !may_restart_;
  return what + rest_text() +
         (ends_round ? "; a round that has begun ends the job, for no restart is left (--max-restarts 0)"
                     : "");
}

std::string NodeBoard::rest_text() const {
  const auto left =
      std::count_if(nodes_.begin(), nodes_.end(), [](const RemoteNode& node) { return !node.failed(); });
  return "; " + std::to_string(left) + " of " + std::to_string(nodes_.size()) +
         " nodes are left, and --nnodes asks for " + std::to_string(needed_) + " at least";
}

std::string NodeBoard::waiting_text(TimePoint now) const {
  std::vector<std::string> texts;
  for (const RemoteNode& node : nodes_)
    if (std::string text = node.waiting_text(now); !text.empty()) texts.push_back(std::move(text));
  if (texts.empty()) return {};
  return std::to_string(nodes_.size() - texts.size()) + " of " + std::to_string(nodes_.size()) +
         " nodes have answered; waiting for " + joined(texts, ", ", kNamed);
}

std::vector<std::string> NodeBoard::unreported() const {
  std::vector<std::string> names;
  for (const RemoteNode& node : nodes_)
    if (node.awaits_report()) names.push_back(node.name());
  return names;
}

}  // namespace muster::launcher
