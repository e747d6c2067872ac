// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/core/node_board.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace muster::launcher {
namespace {

/// Most nodes that a waiting text names; of more it gives only the number.
constexpr std::size_t kNamed = 8;

std::string seconds_since(NodeBoard::TimePoint since, NodeBoard::TimePoint now) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now - since).count()) + " s";
}

/// Returns megabytes with one decimal.
std::string megabytes(std::uint64_t bytes) {
  const std::uint64_t tenths = (bytes + 50000) / 100000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

}  // namespace

NodeBoard::NodeBoard(std::vector<std::string> names, std::size_t needed, bool may_restart)
    : needed_(needed), may_restart_(may_restart) {
  for (std::string& name : names) {
    Node node;
    node.name = std::move(name);
    nodes_.push_back(std::move(node));
  }
}

void NodeBoard::starting(std::size_t index, TimePoint now) {
  Node& node = nodes_[index];
  node.state = State::starting;
  node.since = now;
  node.progress.clear();
  ++node.attempts;
}

void NodeBoard::copying(std::size_t index, std::uint64_t bytes, std::uint64_t of) {
  nodes_[index].progress = "copying muster: " + megabytes(bytes) + " of " + megabytes(of) + " MB";
}

void NodeBoard::retrying(std::size_t index, const std::string& cause) {
  nodes_[index].state = State::waiting;
  nodes_[index].last_cause = cause;
}

NodeBoard::Orders NodeBoard::greeted(std::size_t index) {
  Orders orders;
  nodes_[index].state = State::greeted;
  if (stopping_) {
    cut(index, orders);
    return orders;
  }
  // The coordinator chooses its address by the route to the others, so it comes after them.
  if (index != 0) instruct(index, orders);
  if (complete() && nodes_[0].state == State::greeted) instruct(0, orders);
  return orders;
}

void NodeBoard::instruct(std::size_t index, Orders& orders) {
  Node& node = nodes_[index];
  node.state = State::instructed;
  node.was_instructed = true;
  orders.push_back({NodeOrder::Kind::send_spec, index});
  if (!listening_ || index == 0) return;
  node.knows_coordinator = true;
  orders.push_back({NodeOrder::Kind::send_coordinator, index});
}

NodeBoard::Orders NodeBoard::listening() {
  Orders orders;
  listening_ = true;
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    if (nodes_[i].state != State::instructed || std::exchange(nodes_[i].knows_coordinator, true)) continue;
    orders.push_back({NodeOrder::Kind::send_coordinator, i});
  }
  return orders;
}

bool NodeBoard::complete() const {
  std::size_t answered = 0;
  std::size_t pending = 0;
  for (const Node& node : nodes_) {
    if (node.state == State::waiting || node.state == State::starting)
      ++pending;
    else if (!node.failed)
      ++answered;
  }
  // The job begins without nodes that are only wanted, but not before it is known that they cannot be had.
  return answered >= needed_ && pending == 0;
}

void NodeBoard::fail(std::size_t index, HostFailure failure) {
  nodes_[index].state = State::over;
  // A node that we have cut off ourselves has not failed.
  if (nodes_[index].cut) return;
  nodes_[index].failed = true;
  failure.node = nodes_[index].name;
  failures_.push_back(std::move(failure));
}

bool NodeBoard::can_do_without(std::size_t index) const {
  if (index == 0) return false;
  const auto failed =
      std::count_if(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.failed; });
  return nodes_.size() - static_cast<std::size_t>(failed) >= needed_;
}

bool NodeBoard::spare(std::size_t index) {
  if (!can_do_without(index)) return false;
  if (!failures_.empty() && failures_.back().node == nodes_[index].name) failures_.back().spared = true;
  return true;
}

NodeBoard::Orders NodeBoard::start_failed(std::size_t index, HostFailure failure, TimePoint now) {
  if (nodes_[index].state == State::over) return {};
  fail(index, std::move(failure));
  Orders orders;
  if (stopping_) return orders;
  if (spare(index)) {
    if (complete() && nodes_[0].state == State::greeted) instruct(0, orders);
    return orders;
  }
  stopping_ = true;
  cut_at_ = now + kCollectFailuresFor;
  return end_all(NodeOrder::Kind::stop);
}

NodeBoard::Orders NodeBoard::lost(std::size_t index, HostFailure failure) {
  if (nodes_[index].state == State::over) return {};
  failure.lost = true;
  fail(index, std::move(failure));
  if (stopping_ || spare(index)) return {};
  stopping_ = true;
  return end_all(NodeOrder::Kind::stop);
}

void NodeBoard::reported(std::size_t index) {
  nodes_[index].reported = true;
  nodes_[index].state = State::reported;
}

NodeBoard::Orders NodeBoard::gave_up(std::size_t index) {
  reported(index);
  // The node's report says why.
  nodes_[index].failed = true;
  if (stopping_ || can_do_without(index)) return {};
  stopping_ = true;
  return end_all(NodeOrder::Kind::stop);
}

void NodeBoard::ended(std::size_t index) {
  nodes_[index].state = State::over;
}

NodeBoard::Orders NodeBoard::stop() {
  stopping_ = true;
  cut_at_.reset();
  return end_all(NodeOrder::Kind::stop);
}

NodeBoard::Orders NodeBoard::kill() {
  stopping_ = true;
  cut_at_.reset();
  return end_all(NodeOrder::Kind::kill);
}

void NodeBoard::cut(std::size_t index, Orders& orders) {
  nodes_[index].cut = true;
  orders.push_back({NodeOrder::Kind::cut, index});
}

/// Orders `kind` for the nodes that can be told, and the cut for those that cannot. Nodes that are being
/// started while failures are collected may have something to say, too, and are left.
NodeBoard::Orders NodeBoard::end_all(NodeOrder::Kind kind) {
  Orders orders;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    switch (node.state) {
      case State::waiting:
        node.state = State::over;
        break;
      case State::starting:
        if (!cut_at_) cut(i, orders);
        break;
      case State::greeted:
        cut(i, orders);
        break;
      case State::instructed:
        orders.push_back({kind, i});
        break;
      case State::reported:
      case State::over:
        break;
    }
  }
  return orders;
}

NodeBoard::Orders NodeBoard::tick(TimePoint now) {
  Orders orders;
  if (!cut_at_ || now < *cut_at_) return orders;
  cut_at_.reset();
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].state == State::starting) cut(i, orders);
  return orders;
}

NodeBoard::Orders NodeBoard::cut_all() {
  Orders orders;
  stopping_ = true;
  cut_at_.reset();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].state == State::waiting) nodes_[i].state = State::over;
    if (nodes_[i].state != State::over) cut(i, orders);
  }
  return orders;
}

bool NodeBoard::over() const {
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [](const Node& node) { return node.state == State::over; });
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
      std::count_if(nodes_.begin(), nodes_.end(), [](const Node& node) { return !node.failed; });
  return "; " + std::to_string(left) + " of " + std::to_string(nodes_.size()) +
         " nodes are left, and --nnodes asks for " + std::to_string(needed_) + " at least";
}

std::string NodeBoard::waiting_text(TimePoint now) const {
  std::string names;
  std::size_t waiting = 0;
  for (const Node& node : nodes_) {
    if (node.state != State::waiting && node.state != State::starting) continue;
    if (++waiting > kNamed) continue;
    names += (names.empty() ? "" : ", ") + node.name + " (";
    if (node.state == State::starting)
      names += node.progress.empty() ? "connecting for " + seconds_since(node.since, now) : node.progress;
    else
      names += node.last_cause.empty() ? "its turn has not come" : node.last_cause;
    if (node.attempts > 1) names += ", try " + std::to_string(node.attempts);
    names += ")";
  }
  if (waiting == 0) return {};
  if (waiting > kNamed) names += " and " + std::to_string(waiting - kNamed) + " more";
  return std::to_string(nodes_.size() - waiting) + " of " + std::to_string(nodes_.size()) +
         " nodes have answered; waiting for " + names;
}

std::vector<std::string> NodeBoard::unreported() const {
  std::vector<std::string> names;
  for (const Node& node : nodes_)
    if (!node.reported && !node.failed && node.was_instructed) names.push_back(node.name);
  return names;
}

}  // namespace muster::launcher
