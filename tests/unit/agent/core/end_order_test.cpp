// SPDX-License-Identifier: Apache-2.0
#include "agent/core/end_order.hpp"

#include "catch.hpp"

#include <csignal>

using namespace muster::agent;

namespace {

ExitStatus code(int value) {
  return {ExitStatus::Kind::exited, value};
}

ExitStatus killed_by(int signal) {
  return {ExitStatus::Kind::signaled, signal};
}

/// The local ranks in the order of cause; rank i ended as the i-th.
std::vector<int> ordered(const std::vector<ExitStatus>& ends) {
  std::vector<WorkerEnd> seen;
  for (const ExitStatus& status : ends) seen.push_back({static_cast<int>(seen.size()), status});
  std::vector<int> ranks;
  for (const WorkerEnd& end : in_order_of_cause(seen)) ranks.push_back(end.local_rank);
  return ranks;
}

}  // namespace

TEST_CASE("A worker that was killed goes before those that left with an error at the same time") {
  using Ranks = std::vector<int>;
  CHECK(ordered({code(1), killed_by(SIGKILL)}) == Ranks{1, 0});
  CHECK(ordered({code(1), code(2), killed_by(SIGKILL), killed_by(SIGKILL)}) == Ranks{2, 3, 0, 1});
  CHECK(ordered({code(1), code(2)}) == Ranks{0, 1});
  // They may have crashed because the first one had left.
  CHECK(ordered({code(1), killed_by(SIGABRT), killed_by(SIGSEGV)}) == Ranks{0, 1, 2});
}

TEST_CASE("Only who failed and was not killed may have followed another") {
  CHECK(may_follow_a_loss(code(1)));
  CHECK(may_follow_a_loss(killed_by(SIGSEGV)));
  CHECK_FALSE(may_follow_a_loss(code(0)));
  CHECK_FALSE(may_follow_a_loss(killed_by(SIGKILL)));
}
