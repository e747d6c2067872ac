// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/round.hpp"

#include "rendezvous/base/invariant.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace muster::rendezvous {

void Round::join(const NodeName& node, Join request) {
  const auto [entry, added] = requests_.try_emplace(node, Request{next_order_, {}});
  if (added) ++next_order_;
  workers_ += request.workers - (added ? 0 : entry->second.join.workers);
  if (!added) wanted_.erase(entry->second.join.node_rank);
  if (request.node_rank >= 0) wanted_[request.node_rank] = node;
  entry->second.join = std::move(request);
  expect_no_more(node);
}

const NodeName* Round::holder_of(int node_rank) const {
  const auto found = wanted_.find(node_rank);
  return found == wanted_.end() ? nullptr : &found->second;
}

void Round::withdraw(const NodeName& node) {
  const auto found = requests_.find(node);
  if (found == requests_.end()) return;
  workers_ -= found->second.join.workers;
  MUSTER_ASSERT(workers_ >= 0, "a round counts the workers of those who asked to join");
  wanted_.erase(found->second.join.node_rank);
  requests_.erase(found);
}

void Round::restart(RoundNumber number) {
  number_ = number;
  phase_ = Phase::waiting;
  called_ = false;
  held_ = false;
  held_until_ = TimePoint::min();
  expected_.clear();
  expected_order_.clear();
  join_deadline_.reset();
  last_call_deadline_.reset();
}

void Round::hold(TimePoint now, Milliseconds delay) {
  held_until_ = now + delay;
  delay_ = delay;
}

void Round::remember_order(const std::vector<NodeName>& nodes) {
  old_place_.clear();
  for (std::size_t place = 0; place < nodes.size(); ++place) old_place_[nodes[place]] = place;
}

std::size_t Round::old_place(const NodeName& node) const {
  const auto found = old_place_.find(node);
  return found == old_place_.end() ? std::numeric_limits<std::size_t>::max() : found->second;
}

void Round::expect(const NodeName& node, std::size_t place) {
  if (has(node) || !expected_.emplace(node, place).second) return;
  expected_order_.emplace(place, node);
}

void Round::expect_no_more(const NodeName& node) {
  const auto found = expected_.find(node);
  if (found == expected_.end()) return;
  expected_order_.erase({found->second, node});
  expected_.erase(found);
  MUSTER_ASSERT(expected_order_.size() == expected_.size(), "each expected node has one place");
}

Round::Phase Round::advance(TimePoint now, Previous previous) {
  phase_ = Phase::waiting;
  called_ = false;
  held_ = false;
  if (previous == Previous::running || joined() == 0) {
    join_deadline_.reset();
    last_call_deadline_.reset();
    return phase_;
  }
  if (!join_deadline_) join_deadline_ = std::max(now, held_until_) + limits_.join_timeout;
  if (joined() < limits_.min_nodes) {
    last_call_deadline_.reset();
    if (now >= *join_deadline_) phase_ = Phase::timed_out;
    return phase_;
  }
  phase_ = Phase::last_call;
  if (!last_call_deadline_) last_call_deadline_ = now + limits_.last_call_timeout;
  const bool full = expected_.empty() && (only_expected_ || joined() >= limits_.max_nodes);
  called_ = full || now >= *last_call_deadline_;
  if (!called_) return phase_;
  held_ = previous == Previous::gone && now < held_until_;
  if (previous == Previous::gone && !held_) phase_ = Phase::complete;
  if (previous == Previous::draining && now >= *join_deadline_) phase_ = Phase::timed_out;
  return phase_;
}

std::optional<TimePoint> Round::deadline() const {
  if (phase_ == Phase::waiting) return join_deadline_;
  if (phase_ == Phase::last_call && held_) return held_until_;
  if (phase_ == Phase::last_call) return called_ ? join_deadline_ : last_call_deadline_;
  return std::nullopt;
}

std::vector<NodeName> Round::candidates() const {
  std::vector<std::pair<std::uint64_t, const NodeName*>> ordered;
  ordered.reserve(requests_.size());
  for (const auto& [node, request] : requests_) ordered.emplace_back(request.order, &node);
  std::sort(ordered.begin(), ordered.end());
  std::vector<NodeName> nodes;
  nodes.reserve(ordered.size());
  for (const auto& [order, node] : ordered) nodes.push_back(*node);
  return nodes;
}

std::vector<Seat> Round::take_seats() {
  struct Candidate {
    std::size_t old_place;
    std::uint64_t order;
    int wanted;
    NodeName node;
  };

  std::vector<Candidate> candidates;
  candidates.reserve(requests_.size());
  for (const auto& [node, request] : requests_)
    candidates.push_back({old_place(node), request.order, request.join.node_rank, node});
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.old_place, a.order) < std::tie(b.old_place, b.order);
  });
  const auto places = static_cast<std::size_t>(limits_.max_nodes);
  if (candidates.size() > places) candidates.erase(candidates.begin() + limits_.max_nodes, candidates.end());
  if (std::all_of(candidates.begin(), candidates.end(), [](const Candidate& one) { return one.wanted >= 0; }))
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.wanted < b.wanted; });
  std::vector<Seat> seats;
  seats.reserve(candidates.size());
  int next_rank = 0;
  for (Candidate& candidate : candidates) {
    const auto found = requests_.find(candidate.node);
    Join request = std::move(found->second.join);
    const int workers = request.workers;
    workers_ -= workers;
    wanted_.erase(request.node_rank);
    requests_.erase(found);
    seats.push_back(Seat{std::move(candidate.node), next_rank, workers, std::move(request)});
    next_rank += workers;
  }
  MUSTER_ASSERT(workers_ >= 0, "a round counts the workers of those who asked to join");
  return seats;
}

Status Round::status(Previous previous, const Remark& remark) const {
  Status status;
  status.round = number_;
  status.joined = joined();
  status.wanted = limits_.min_nodes;
  std::vector<std::string> described;
  for (const auto& [place, node] : expected_order_) {
    if (status.missing.size() == kMaxNamesInText) break;
    status.missing.push_back(node);
    const std::string more = remark ? remark(node) : "";
    described.push_back(more.empty() ? node : node + " (" + more + ")");
  }
  const int lacking = limits_.min_nodes - joined();
  status.text = std::to_string(joined()) + " of " + std::to_string(limits_.min_nodes) + " nodes joined; ";
  if (previous == Previous::running) {
    status.text = "the job runs with all the nodes it can have; waiting for room";
  } else if (lacking > 0) {
    // If all missing nodes are known by name, their number adds nothing.
    const bool all_named = expected_.size() == static_cast<std::size_t>(lacking);
    status.text += "waiting for ";
    if (!all_named) status.text += std::to_string(lacking) + " more";
    if (!all_named && !described.empty()) status.text += ": ";
    status.text += muster::joined(described) + and_more(expected_.size() - described.size());
  } else if (previous == Previous::draining) {
    status.text += "waiting for the workers of the previous round to end";
  } else if (held_) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(delay_);
    status.text +=
        "the next round begins " + std::to_string(seconds.count()) + " s after the end of the one before";
  } else {
    status.text += "last call for up to " + std::to_string(limits_.max_nodes) + " nodes";
  }
  return status;
}

}  // namespace muster::rendezvous
