// SPDX-License-Identifier: Apache-2.0
#include "agent/core/watchdog_timers.hpp"

#include "catch.hpp"

#include <string>
#include <vector>

using namespace muster::agent;
using namespace std::chrono_literals;

namespace {

/// The workers' clock says so at kStart.
constexpr double kWall = 1.7e9;
constexpr WatchdogTimers::TimePoint kStart{1000s};

/// As PyTorch's client writes it; negative seconds release the timer.
std::string request(int pid, const std::string& name, double in_s, int signal = 9) {
  return R"({"version": 1, "pid": )" + std::to_string(pid) + R"(, "scope_id": ")" + name +
         R"(", "expiration_time": )" + std::to_string(in_s < 0 ? -1 : kWall + in_s) + R"(, "signal": )" +
         std::to_string(signal) + "}\n";
}

std::string take(WatchdogTimers& timers, const std::string& bytes) {
  return timers.receive(bytes, kStart, kWall);
}

std::vector<std::string> names(const std::vector<ExpiredTimer>& expired) {
  std::vector<std::string> result;
  for (const ExpiredTimer& timer : expired) result.push_back(timer.name);
  return result;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("A timer that is not released runs out at its time, once") {
  WatchdogTimers timers;
  CHECK_FALSE(timers.next());
  CHECK(take(timers, request(40, "step", 2)).empty());
  CHECK(timers.next() == kStart + 2s);
  CHECK(timers.take_expired(kStart + 1999ms).empty());
  const auto expired = timers.take_expired(kStart + 2s);
  REQUIRE(expired.size() == 1);
  CHECK(expired[0].pid == 40);
  CHECK(expired[0].name == "step");
  CHECK(expired[0].limit == 2s);
  CHECK(expired[0].signal == 9);
  CHECK(timers.take_expired(kStart + 1h).empty());
  CHECK_FALSE(timers.next());
}

TEST_CASE("A released timer does not run out, and one that is set again begins anew") {
  WatchdogTimers timers;
  CHECK(take(timers, request(40, "a", 2) + request(40, "b", 3) + request(41, "a", 4)).empty());
  CHECK(take(timers, request(40, "a", -1)).empty());
  CHECK(timers.next() == kStart + 3s);
  CHECK(take(timers, request(40, "b", 9)).empty());
  CHECK(timers.next() == kStart + 4s);
  CHECK(take(timers, request(77, "never set", -1)).empty());
  CHECK(names(timers.take_expired(kStart + 5s)) == Names{"a"});
  CHECK(timers.next() == kStart + 9s);
  timers.forget(40);
  CHECK_FALSE(timers.next());
}

TEST_CASE("The first timer of a process that has a signal counts, and its other timers are gone") {
  WatchdogTimers timers;
  CHECK(take(timers, request(40, "said", 1, 0) + request(40, "late", 3) + request(40, "early", 2) +
                         request(40, "far", 900) + request(41, "other", 2, 15))
            .empty());
  const auto expired = timers.take_expired(kStart + 5s);
  CHECK(names(expired) == Names{"early", "other"});
  CHECK(expired.at(1).signal == 15);
  CHECK_FALSE(timers.next());
}

TEST_CASE("A timer without a signal is said and ends nothing") {
  WatchdogTimers timers;
  CHECK(take(timers, request(40, "said", 1, -9) + request(40, "real", 5)).empty());
  const auto expired = timers.take_expired(kStart + 2s);
  REQUIRE(expired.size() == 1);
  CHECK(expired[0].signal == 0);
  CHECK(names(timers.take_expired(kStart + 5s)) == Names{"real"});
}

TEST_CASE("A wall clock that jumps after a request changes nothing, and a time in the past expires at once") {
  WatchdogTimers timers;
  CHECK(timers.receive(request(40, "a", 5), kStart, kWall + 2).empty());
  CHECK(timers.next() == kStart + 3s);
  CHECK(timers.receive(request(41, "b", 5), kStart, kWall + 500).empty());
  CHECK(names(timers.take_expired(kStart)) == Names{"b"});
  CHECK(timers
            .receive(R"({"pid": 42, "scope_id": "c", "expiration_time": 1e300, "signal": 9})"
                     "\n",
                     kStart, kWall)
            .empty());
  CHECK(timers.take_expired(kStart + 24h).size() == 1);
  CHECK(timers.next() > kStart + 24h * 365);
}

TEST_CASE("Requests may come in pieces, and several at once") {
  WatchdogTimers timers;
  const std::string bytes = request(40, "a", 1) + request(41, "b", 2);
  for (const char byte : bytes) CHECK(take(timers, std::string(1, byte)).empty());
  CHECK(names(timers.take_expired(kStart + 2s)) == Names{"a", "b"});
}

TEST_CASE("A line that is no request is reported and left out") {
  const char* bad[] = {
      "nonsense",
      "[]",
      "{}",
      R"({"pid": 1, "scope_id": "a", "expiration_time": 5, "signal": 9})",
      R"({"pid": -40, "scope_id": "a", "expiration_time": 5, "signal": 9})",
      R"({"pid": 99999999999, "scope_id": "a", "expiration_time": 5, "signal": 9})",
      R"({"pid": "40", "scope_id": "a", "expiration_time": 5, "signal": 9})",
      R"({"pid": 40, "scope_id": 7, "expiration_time": 5, "signal": 9})",
      R"({"pid": 40, "scope_id": "a", "expiration_time": "5", "signal": 9})",
      R"({"pid": 40, "scope_id": "a", "expiration_time": Infinity, "signal": 9})",
      R"({"pid": 40, "scope_id": "a", "expiration_time": 5, "signal": 65})",
      R"({"pid": 40, "scope_id": "a", "expiration_time": 5})",
  };
  for (const char* line : bad) {
    CAPTURE(line);
    WatchdogTimers timers;
    CHECK(contains(take(timers, std::string(line) + "\n" + request(40, "good", 1)), "cannot be read"));
    CHECK(names(timers.take_expired(kStart + 1h)) == Names{"good"});
  }
  WatchdogTimers timers;
  CHECK(take(timers, "\n\n").empty());
}

TEST_CASE("A line and the number of timers are bounded") {
  WatchdogTimers timers;
  const std::string endless(WatchdogTimers::kLineBytesMax, 'x');
  CHECK(take(timers, endless).empty());
  CHECK(contains(take(timers, endless), "more than 4096 bytes"));
  CHECK(take(timers, endless).empty());
  CHECK(take(timers, endless + "\n" + request(40, "after", 1)).empty());
  CHECK(names(timers.take_expired(kStart + 1s)) == Names{"after"});

  for (std::size_t i = 0; i < WatchdogTimers::kTimersMax; ++i)
    REQUIRE(take(timers, request(40, std::to_string(i), 60)).empty());
  CHECK(contains(take(timers, request(41, "one more", 1)), "beyond 1024"));
  CHECK(take(timers, request(40, "7", 1)).empty());
  CHECK(names(timers.take_expired(kStart + 1s)) == Names{"7"});
  CHECK(take(timers, request(41, "there is room", 1)).empty());
}

TEST_CASE("A long name keeps its end, which has the line") {
  WatchdogTimers timers;
  CHECK(take(timers, request(40, std::string(3000, 'd') + "/train.py#17", 1)).empty());
  const auto expired = timers.take_expired(kStart + 1s);
  REQUIRE(expired.size() == 1);
  CHECK(expired[0].name.size() < 200);
  CHECK(expired[0].name.starts_with("[...]d"));
  CHECK(expired[0].name.ends_with("/train.py#17"));
}

TEST_CASE("The sentence of the report") {
  const ExpiredTimer timer{4711, "train.py#17", 2040ms, 9};
  CHECK(describe(timer, 3, true) == "the watchdog timer 'train.py#17' of rank 3 expired after 2.0 s");
  CHECK(describe(timer, 3, false) ==
        "the watchdog timer 'train.py#17' of rank 3 (its process 4711) expired after 2.0 s");
}
