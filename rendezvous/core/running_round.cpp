// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/running_round.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::rendezvous {

RunningRound::RunningRound(RoundNumber number, std::vector<Seat> seats)
    : number_(number), seats_(std::move(seats)) {
  for (std::size_t place = 0; place < seats_.size(); ++place) present_.emplace(seats_[place].node, place);
}

std::vector<NodeName> RunningRound::present() const {
  std::vector<NodeName> nodes;
  nodes.reserve(present_.size());
  for (const Seat& seat : seats_)
    if (has(seat.node)) nodes.push_back(seat.node);
  return nodes;
}

bool RunningRound::has(const NodeName& node, int rank) const {
  const auto above = std::upper_bound(seats_.begin(), seats_.end(), rank,
                                      [](int wanted, const Seat& seat) { return wanted < seat.first_rank; });
  if (above == seats_.begin()) return false;
  const Seat& seat = *std::prev(above);
  return seat.node == node && rank < seat.first_rank + seat.workers;
}

const Seat* RunningRound::seat_of(const NodeName& node) const {
  const auto found = present_.find(node);
  return found == present_.end() ? nullptr : &seats_[found->second];
}

std::vector<RoundResult> RunningRound::begin(const Endpoint& endpoint, int restarts, TimePoint now) {
  stage_ = Stage::running;
  began_ = now;
  RoundResult result;
  result.round = number_;
  result.nodes = static_cast<int>(seats_.size());
  result.world_size = world_size();
  result.store_host = endpoint.host;
  result.store_port = endpoint.port;
  result.restarts = restarts;
  std::vector<RoundResult> results(seats_.size(), result);
  for (std::size_t place = 0; place < results.size(); ++place) {
    results[place].node_rank = static_cast<int>(place);
    results[place].first_rank = seats_[place].first_rank;
  }
  return results;
}

void RunningRound::end(RoundEnd end) {
  stage_ = Stage::over;
  told_ = std::move(end);
}

void RunningRound::close() {
  stage_ = Stage::over;
  fall_short();
}

std::vector<NodeName> RunningRound::fall_short() {
  may_succeed_ = false;
  // Every node that leaves after a failure asks, and few have waited.
  std::vector<NodeName> nodes;
  if (waiting_.empty()) return nodes;
  for (const Seat& seat : seats_)
    if (waiting_.count(seat.node) > 0) nodes.push_back(seat.node);
  waiting_.clear();
  return nodes;
}

std::string RunningRound::text() const {
  std::vector<std::string> hosts;
  for (const Seat& seat : seats_)
    if (has(seat.node) && hosts.size() < kMaxNamesInText) hosts.push_back(seat.request.host);
  return "round " + std::to_string(number_) + " runs on " + std::to_string(present_.size()) +
         (present_.size() == 1 ? " node" : " nodes") + ": " + joined(hosts) +
         (present_.size() > hosts.size() ? ", ..." : "");
}

}  // namespace muster::rendezvous
