// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/core/line_account.hpp"

#include "catch.hpp"

using muster::launcher::LineAccount;
using std::chrono::milliseconds;
using Judged = LineAccount::Verdict;

TEST_CASE("A disk that takes something is waited for, a silent one is not") {
  LineAccount account;
  LineAccount::TimePoint now{};
  const std::size_t half = LineAccount::kQueueBytes / 2;
  CHECK(account.offer(half, now) == Judged::take);
  CHECK(account.offer(half, now) == Judged::take);
  CHECK(account.offer(1, now) == Judged::wait);
  now += LineAccount::kSilentAfter - milliseconds(1);
  CHECK(account.offer(1, now) == Judged::wait);
  account.written(half, now);
  CHECK(account.offer(half, now) == Judged::take);
  now += LineAccount::kSilentAfter - milliseconds(1);
  CHECK(account.offer(1, now) == Judged::wait);
  CHECK_FALSE(account.has_lost());
  now += milliseconds(1);
  CHECK(account.offer(1, now) == Judged::drop);
  CHECK(account.offer(1, now) == Judged::drop);
  REQUIRE(account.has_lost());
  CHECK(account.take_lost() == 2);
  CHECK_FALSE(account.has_lost());
  account.written(2 * half, now);
  CHECK(account.offer(1, now) == Judged::take);
}

TEST_CASE("An empty queue does not make a disk look silent") {
  LineAccount account;
  LineAccount::TimePoint now{};
  now += std::chrono::hours(5);
  CHECK(account.offer(LineAccount::kQueueBytes, now) == Judged::take);
  CHECK(account.offer(1, now) == Judged::wait);
  account.written(LineAccount::kQueueBytes, now);
  now += std::chrono::hours(5);
  CHECK(account.offer(LineAccount::kQueueBytes, now) == Judged::take);
  CHECK(account.offer(1, now) == Judged::wait);
}
