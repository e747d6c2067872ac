// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/core/record_filter.hpp"

#include "catch.hpp"
#include "launcher/core/utc_text.hpp"

#include <string>

using namespace muster::launcher;

namespace {

ConsoleRecord record_at(std::int64_t time_ms, int round, int rank) {
  ConsoleRecord record;
  record.time_ms = time_ms;
  record.round = round;
  record.rank = rank;
  return record;
}

/// 2026-11-28T03:52:34Z.
constexpr std::int64_t kSomeTime = 1795837954000;

}  // namespace

TEST_CASE("Records are chosen by rank, round and time, each by itself") {
  CHECK(RecordFilter{}.wants(record_at(0, -1, -1)));
  const RecordFilter ranks{{1, 3}, {}, {}};
  CHECK(ranks.wants(record_at(0, 0, 3)));
  CHECK_FALSE(ranks.wants(record_at(0, 0, 2)));
  CHECK_FALSE(ranks.wants(record_at(0, -1, -1)));
  const RecordFilter round{{}, 1, {}};
  CHECK(round.wants(record_at(0, 1, 9)));
  CHECK_FALSE(round.wants(record_at(0, 0, 9)));
  CHECK_FALSE(round.wants(record_at(0, -1, -1)));
  const RecordFilter since{{}, {}, 100};
  CHECK(since.wants(record_at(100, 0, 0)));
  CHECK_FALSE(since.wants(record_at(99, 0, 0)));
  // A clock that was set back: what comes later and looks older is left out, what looks newer is not.
  CHECK(since.wants(record_at(500, 0, 0)));
}

TEST_CASE("A time is so long ago") {
  CHECK(parse_since("90s", kSomeTime, 0) == kSomeTime - 90'000);
  CHECK(parse_since("10m", kSomeTime, 0) == kSomeTime - 600'000);
  CHECK(parse_since("1.5h", kSomeTime, 0) == kSomeTime - 5'400'000);
  CHECK(parse_since("2d", kSomeTime, 0) == kSomeTime - 172'800'000);
  CHECK(parse_since("500ms", kSomeTime, 0) == kSomeTime - 500);
  CHECK(parse_since("0s", kSomeTime, 0) == kSomeTime);
  for (const char* text :
       {"", "s", "10", "-5m", "1e3s", "10 m", "10M", "..s", "1.2.3s", "999999999999d", "nans"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_since(text, kSomeTime, 0));
  }
}

TEST_CASE("A time is a date of ISO 8601, of this zone unless it says another one") {
  CHECK(parse_since("2026-11-28T03:52:34Z", 0, 7200) == kSomeTime);
  CHECK(parse_since("2026-11-28T05:52:34", 0, 7200) == kSomeTime);
  CHECK(parse_since("2026-11-28 05:52", 0, 7200) == kSomeTime - 34'000);
  CHECK(parse_since("2026-11-28T03:52:34.25", 0, 0) == kSomeTime + 250);
  CHECK(parse_since("2026-11-28T03:52:34.123456+00:00", 0, 7200) == kSomeTime + 123);
  CHECK(parse_since("2026-11-27T22:22:34-05:30", 0, 0) == kSomeTime);
  CHECK(parse_since("2026-11-28T04:52:34+0100", 0, 0) == kSomeTime);
  CHECK(parse_since("1970-01-01", 0, 0) == 0);
  CHECK(parse_since("1970-01-01", 0, 3600) == -3'600'000);
  for (const char* text : {"2026-13-01", "2026-02-29", "2026-11-28T24:00", "2026-11-28T1:00",
                           "2026-11-28T01:00:", "2026-11-28T01:00x", "2026-11-28T01:00+1",
                           "2026-11-28T01:00:00.", "26-11-28", "2026-11-28T01:00+25:00", "2026-11-28T"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_since(text, 0, 0));
  }
}

TEST_CASE("Times are written in UTC") {
  CHECK(utc_text(kSomeTime + 7) == "2026-11-28T03:52:34.007Z");
  CHECK(parse_since(utc_text(kSomeTime + 7), 0, 3600) == kSomeTime + 7);
}
