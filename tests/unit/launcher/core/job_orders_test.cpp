// SPDX-License-Identifier: Apache-2.0
#include "launcher/core/job_orders.hpp"

#include "catch.hpp"

#include <csignal>
#include <functional>
#include <vector>

using namespace muster::launcher;
using namespace std::chrono_literals;

namespace {

using JobEvent = std::function<JobActions(JobOrders&)>;

JobEvent caught(int number) {
  return [number](JobOrders& orders) { return orders.signalled(number); };
}

JobEvent asked(const EndRequest& request) {
  return [request](JobOrders& orders) { return orders.asked(request); };
}

const JobEvent kInterrupt = caught(SIGINT);
const JobEvent kTerminate = caught(SIGTERM);
const JobEvent kNow = asked({.now = true, .by = "somebody"});
const JobEvent kDeadline = &JobOrders::deadline_passed;
const JobEvent kNodeFailed = &JobOrders::node_failed;
const JobEvent kReported = &JobOrders::reported;
const JobEvent kEnded = &JobOrders::nodes_ended;
const JobEvent kLate = &JobOrders::late;

JobActions stopped_with(int signal) {
  return {.hurry_output = true, .stop_signal = signal, .late_after = 50s};
}

/// As SIGTERM, but workers are told why.
const JobActions kTimeout{
    .hurry_output = true, .stop_signal = SIGTERM, .stop_reason = "timeout", .late_after = 50s};

const JobActions kNothing{};
const JobActions kOnlyHurry{.hurry_output = true};
const JobActions kOnlyDrop{.drop_output = true};
const JobActions kKill{.drop_output = true, .kill = true, .late_after = 500ms};
const JobActions kLeave{.drop_output = true, .cut_all = true, .finish = true};
const JobActions kWaitForReports{.late_after = 50s};
const JobActions kWaitForGuardian{.late_after = 15s};
const JobActions kCutLate{.cut_all = true, .late_after = 3s};
const JobActions kFinish{.finish = true};

/// What happens to a job with a grace period of 30 s, and what is done after the last of it.
struct OrdersRow {
  const char* what;
  std::vector<JobEvent> events;
  JobActions last;
  JobEnd::Cause cause = JobEnd::Cause::finished;
  int signal = 0;
};

void check_rows(const std::vector<OrdersRow>& rows) {
  for (const OrdersRow& row : rows) {
    INFO(row.what);
    JobOrders orders(30s);
    JobActions actions;
    for (const JobEvent& event : row.events) actions = event(orders);
    CHECK(actions == row.last);
    CHECK(orders.end().cause == row.cause);
    CHECK(orders.end().signal == row.signal);
  }
}

}  // namespace

TEST_CASE("A signal asks for an orderly end, and only SIGINT is counted") {
  constexpr auto kInterrupted = JobEnd::Cause::interrupted;
  check_rows({
      {"one Ctrl-C", {kInterrupt}, stopped_with(SIGINT), kInterrupted, SIGINT},
      {"a closed terminal", {caught(SIGHUP), caught(SIGHUP)}, stopped_with(SIGHUP), kInterrupted, SIGHUP},
      {"the first one is the cause", {kTerminate, kInterrupt}, stopped_with(SIGINT), kInterrupted, SIGTERM},
      {"twice", {kInterrupt, kInterrupt}, kKill, kInterrupted, SIGINT},
      {"twice, and another before", {kTerminate, kInterrupt, kInterrupt}, kKill, kInterrupted, SIGTERM},
      {"no stop after it", {kInterrupt, kInterrupt, kTerminate}, kOnlyDrop, kInterrupted, SIGINT},
      {"three times", {kInterrupt, kInterrupt, kInterrupt}, kLeave, kInterrupted, SIGINT},
      {"and again", {kInterrupt, kInterrupt, kInterrupt, kInterrupt}, kOnlyDrop, kInterrupted, SIGINT},
  });
}

TEST_CASE("The deadline ends a job that nobody has ended yet") {
  constexpr auto kDeadlinePassed = JobEnd::Cause::deadline;
  check_rows({
      {"alone", {kDeadline}, kTimeout, kDeadlinePassed},
      {"before a signal", {kDeadline, kInterrupt}, stopped_with(SIGINT), kDeadlinePassed},
      {"after a signal", {kTerminate, kDeadline}, kOnlyHurry, JobEnd::Cause::interrupted, SIGTERM},
      {"after a node's failure", {kNodeFailed, kDeadline}, kOnlyHurry},
      {"after the reports", {kReported, kDeadline}, kOnlyHurry},
  });
}

TEST_CASE("Nodes that end by themselves have as long as others, but not once they are killed") {
  constexpr auto kInterrupted = JobEnd::Cause::interrupted;
  check_rows({
      {"a failure", {kNodeFailed}, kWaitForReports},
      {"and a signal", {kNodeFailed, kInterrupt}, stopped_with(SIGINT), kInterrupted, SIGINT},
      {"while they are killed", {kInterrupt, kInterrupt, kNodeFailed}, kNothing, kInterrupted, SIGINT},
      {"reports", {kReported}, kWaitForGuardian},
      {"after a kill", {kInterrupt, kInterrupt, kReported}, kWaitForGuardian, kInterrupted, SIGINT},
      {"a kill after reports", {kReported, kInterrupt, kInterrupt}, kKill, kInterrupted, SIGINT},
  });
}

TEST_CASE("What is late is cut off, and then not waited for") {
  constexpr auto kInterrupted = JobEnd::Cause::interrupted;
  check_rows({
      {"after a stop", {kTerminate, kLate}, kCutLate, kInterrupted, SIGTERM},
      {"after a kill", {kInterrupt, kInterrupt, kLate}, kCutLate, kInterrupted, SIGINT},
      {"after a failure", {kNodeFailed, kLate}, kCutLate},
      {"after the reports", {kReported, kLate}, kCutLate},
      {"again", {kTerminate, kLate, kLate}, kFinish, kInterrupted, SIGTERM},
      {"a signal meanwhile", {kTerminate, kLate, kTerminate}, kOnlyHurry, kInterrupted, SIGTERM},
      {"two Ctrl-C meanwhile", {kTerminate, kLate, kInterrupt, kInterrupt}, kLeave, kInterrupted, SIGTERM},
      {"nodes that fail meanwhile", {kTerminate, kLate, kNodeFailed}, kNothing, kInterrupted, SIGTERM},
      {"reports meanwhile", {kTerminate, kLate, kReported}, kNothing, kInterrupted, SIGTERM},
      {"the end meanwhile", {kTerminate, kLate, kEnded}, kFinish, kInterrupted, SIGTERM},
  });
}

TEST_CASE("Once the nodes have ended only the output is left") {
  check_rows({
      {"the end", {kEnded}, kFinish},
      {"once", {kEnded, kEnded}, kNothing},
      {"a late timer", {kTerminate, kEnded, kLate}, kNothing, JobEnd::Cause::interrupted, SIGTERM},
      {"a deadline", {kEnded, kDeadline}, kOnlyHurry},
      {"one Ctrl-C", {kEnded, kInterrupt}, kOnlyHurry},
      {"two", {kEnded, kInterrupt, kInterrupt}, kOnlyDrop},
      {"three", {kEnded, kInterrupt, kInterrupt, kInterrupt}, kOnlyDrop},
  });
}

TEST_CASE("Another shell ends a job as a signal does, perhaps with a grace period of its own") {
  constexpr auto kInterrupted = JobEnd::Cause::interrupted;
  JobActions with_grace = stopped_with(SIGTERM);
  with_grace.grace = 5s;
  with_grace.late_after = 25s;
  const JobEvent in_time = asked({.grace = 5s, .by = "somebody"});
  check_rows({
      {"alone", {asked({.by = "somebody"})}, stopped_with(SIGTERM), kInterrupted, SIGTERM},
      {"another signal", {asked({.signal = SIGHUP})}, stopped_with(SIGHUP), kInterrupted, SIGHUP},
      {"a grace period", {in_time}, with_grace, kInterrupted, SIGTERM},
      {"after a signal", {kInterrupt, in_time}, with_grace, kInterrupted, SIGINT},
      {"twice SIGINT", {asked({.signal = SIGINT}), kInterrupt}, kKill, kInterrupted, SIGINT},
      {"at once", {kNow}, kKill, kInterrupted, SIGTERM},
      {"at once, after a stop", {kInterrupt, kNow}, kKill, kInterrupted, SIGINT},
      {"at once, twice", {kNow, kNow}, kOnlyDrop, kInterrupted, SIGTERM},
      {"no stop after it", {kNow, in_time}, kOnlyDrop, kInterrupted, SIGTERM},
      {"Ctrl-C after it", {kNow, kInterrupt}, kLeave, kInterrupted, SIGTERM},
      {"when it is cut off", {kTerminate, kLate, kNow}, kOnlyDrop, kInterrupted, SIGTERM},
      {"after the end", {kEnded, kNow}, kOnlyDrop},
  });
}

TEST_CASE("Who ended a job is said, and by when it has ended") {
  JobOrders orders(30s);
  CHECK(orders.ends_within() > 30s);
  const auto usual = orders.ends_within();
  orders.asked({.grace = 90s, .by = "somebody"});
  CHECK(orders.ends_within() == usual + 60s);
  // A stop that has begun gets no longer.
  CHECK(orders.asked({.grace = 600s, .by = "another"}).grace == 90s);
  CHECK(orders.ends_within() == usual + 60s);
  CHECK(orders.end().by == "somebody");
  JobOrders signalled(30s);
  signalled.signalled(SIGTERM);
  signalled.asked({.now = true, .by = "somebody"});
  CHECK(signalled.end().by.empty());
}
