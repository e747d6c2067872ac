// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/start_queue.hpp"

#include <algorithm>
#include <utility>

namespace muster::launcher {

StartQueue::StartQueue(const std::vector<std::string>& servers, StartLimits limits,
                       std::function<bool(std::size_t)> waits, std::function<double()> random)
    : limits_(limits), waits_(std::move(waits)), random_(std::move(random)), limit_(limits.in_progress) {
  for (const std::string& server : servers) {
    Node node;
    node.server = server;
    node.wait_ms = static_cast<double>(limits_.first_wait.count());
    nodes_.push_back(std::move(node));
    servers_[server].limit = limits_.per_server;
  }
}

std::vector<std::size_t> StartQueue::take_due(TimePoint now) {
  std::vector<std::size_t> due;
  for (std::size_t i = 0; i < nodes_.size() && under_way_ < limit_; ++i) {
    const Node& node = nodes_[i];
    if (!waits_(i) || node.not_before > now) continue;
    Server& server = servers_[node.server];
    if (server.under_way >= server.limit) continue;
    ++server.under_way;
    ++under_way_;
    due.push_back(i);
  }
  return due;
}

void StartQueue::admitted(std::size_t index, TimePoint now) {
  failed(index);
  Server& server = servers_[nodes_[index].server];
  server.limit = std::min(server.limit + 1, limits_.per_server);
  limit_ = std::min(limit_ + 1, limits_.in_progress);
  last_admission_ = now;
}

bool StartQueue::refused(std::size_t index, TimePoint now) {
  failed(index);
  Node& node = nodes_[index];
  Server& server = servers_[node.server];
  // Somebody else may be logging in at that server, too: half of our number leaves room.
  server.limit = std::max(server.limit / 2, 1);
  limit_ = std::max(std::min(limit_, under_way_), limits_.least_in_progress);
  if (!node.first_refusal) node.first_refusal = now;
  const TimePoint alive = std::max(*node.first_refusal, last_admission_.value_or(*node.first_refusal));
  if (now - alive >= limits_.patience) return false;
  const auto wait = static_cast<rendezvous::Milliseconds::rep>(node.wait_ms * (0.5 + random_()));
  node.not_before = now + rendezvous::Milliseconds(wait);
  node.wait_ms = std::min(node.wait_ms * 1.5, static_cast<double>(limits_.longest_wait.count()));
  return true;
}

void StartQueue::failed(std::size_t index) {
  --servers_[nodes_[index].server].under_way;
  --under_way_;
}

std::optional<StartQueue::TimePoint> StartQueue::next_due() const {
  std::optional<TimePoint> next;
  if (under_way_ >= limit_) return next;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!waits_(i)) continue;
    const Server& server = servers_.at(node.server);
    if (server.under_way >= server.limit) continue;
    if (!next || node.not_before < *next) next = node.not_before;
  }
  return next;
}

namespace {

using std::chrono::milliseconds;

/// The most of the login timeout, and its part, that is kept to end the other starts and say what failed.
constexpr milliseconds kForTheEnd{1000};
constexpr int kPartForTheEnd = 10;
/// More time for each other login that may be under way: this host has work with all of them.
constexpr milliseconds kForEachOther{250};
/// The most of the login timeout, and its part, that is kept for all that comes after the connection.
constexpr milliseconds kForTheLogin{2000};
constexpr int kPartForTheLogin = 5;

}  // namespace

milliseconds greeting_limit(milliseconds login_timeout, std::size_t nodes) {
  const auto at_once = static_cast<std::size_t>(StartLimits{}.in_progress);
  const auto others = static_cast<int>(std::clamp<std::size_t>(nodes, 1, at_once)) - 1;
  return login_timeout - std::min(kForTheEnd, login_timeout / kPartForTheEnd) + others * kForEachOther;
}

int connect_timeout_s(milliseconds login_timeout) {
  const milliseconds kept = std::min(kForTheLogin, login_timeout / kPartForTheLogin);
  // The limit of the greeting ends what a whole second is too long for.
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(login_timeout - kept);
  return std::max(1, static_cast<int>(seconds.count()));
}

}  // namespace muster::launcher
