// SPDX-License-Identifier: Apache-2.0
#include "launcher/history/core/goodput.hpp"

#include "catch.hpp"

#include <chrono>

namespace goodput_test {

using namespace muster::launcher;
using namespace std::chrono_literals;

namespace {

const Goodput::TimePoint kBegin{1000s};

}  // namespace

TEST_CASE("A job without trouble is useful from its first round on") {
  Goodput job(kBegin);
  CHECK(job.shares(kBegin + 2s).start == 2s);
  job.round_begins(0, kBegin + 3s);
  job.round_begins(0, kBegin + 4s);  // of another node
  const TimeShares shares = job.shares(kBegin + 10s);
  CHECK(shares == TimeShares{7s, 3s, 0s, 0s, 0s, 0s, false});
  CHECK(shares.total() == 10s);
  job.ends(kBegin + 10s);
  CHECK(job.shares(kBegin + 12s).end == 2s);
  CHECK(job.shares(kBegin + 12s).useful == 7s);
}

TEST_CASE("Work before a restart is lost at most, where no steps are told") {
  Goodput job(kBegin);
  job.round_begins(0, kBegin + 1s);
  job.failed(0, kBegin + 11s);
  job.failed(0, kBegin + 12s);
  job.decided(true, 0, kBegin + 13s);
  CHECK(job.shares(kBegin + 14s) == TimeShares{0s, 1s, 2s, 1s, 10s, 0s, true});
  job.round_begins(1, kBegin + 17s);
  job.failed(0, kBegin + 22s);
  job.decided(true, 0, kBegin + 22s);
  job.round_begins(2, kBegin + 22s);  // in no time at all
  const TimeShares shares = job.shares(kBegin + 30s);
  CHECK(shares == TimeShares{8s, 1s, 2s, 4s, 15s, 0s, true});
  CHECK(shares.total() == 30s);
}

TEST_CASE("Where steps are told, what is done again counts until the step that was reached") {
  Goodput job(kBegin);
  job.round_begins(0, kBegin);
  job.failed(40, kBegin + 10s);
  job.decided(true, 40, kBegin + 10s);
  job.round_begins(1, kBegin + 12s);
  CHECK(job.shares(kBegin + 13s) == TimeShares{10s, 0s, 0s, 2s, 1s, 0s, false});
  job.caught_up(kBegin + 15s);
  job.caught_up(kBegin + 16s);  // of another node
  CHECK(job.shares(kBegin + 20s) == TimeShares{15s, 0s, 0s, 2s, 3s, 0s, false});
  job.failed(60, kBegin + 20s);
  job.decided(true, 60, kBegin + 20s);
  job.round_begins(2, kBegin + 20s);
  // It never comes as far again.
  job.failed(50, kBegin + 24s);
  job.decided(false, 60, kBegin + 24s);
  CHECK(job.shares(kBegin + 25s) == TimeShares{15s, 0s, 0s, 2s, 7s, 1s, false});
}

TEST_CASE("The time for which a hang stands is lost if an end follows, and useful if a rank moves again") {
  Goodput job(kBegin);
  job.round_begins(0, kBegin);
  job.hung(60s, kBegin + 100s);
  CHECK(job.shares(kBegin + 110s).detect == 70s);
  CHECK(job.settled(kBegin + 110s).detect == 0s);
  job.hung(90s, kBegin + 130s);  // another cause of the same hang
  CHECK(job.shares(kBegin + 130s).useful == 40s);
  job.moves();
  CHECK(job.shares(kBegin + 200s) == TimeShares{200s, 0s, 0s, 0s, 0s, 0s, false});
  job.hung(60s, kBegin + 300s);
  job.decided(true, 5, kBegin + 310s);
  CHECK(job.shares(kBegin + 310s) == TimeShares{240s, 0s, 70s, 0s, 0s, 0s, false});
  job.round_begins(1, kBegin + 311s);
  job.hung(600s, kBegin + 320s);  // no longer than the round
  job.ends(kBegin + 321s);
  const TimeShares shares = job.shares(kBegin + 322s);
  CHECK(shares == TimeShares{240s, 0s, 80s, 1s, 0s, 1s, false});
  CHECK(shares.total() == 322s);
}

TEST_CASE("Fractions of a millisecond do not get lost") {
  Goodput job(kBegin);
  for (int i = 0; i < 1000; ++i) {
    job.round_begins(i, kBegin + i * 1500us);
    job.decided(true, 1, kBegin + i * 1500us + 700us);
  }
  CHECK(job.shares(kBegin + 1500ms).total() == 1500ms);
}

}  // namespace goodput_test
