// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/kill_order.hpp"

#include "catch.hpp"

#include <csignal>
#include <stdexcept>

using namespace muster::launcher;
using namespace std::chrono_literals;

namespace {

const std::vector<int> kEnds{SIGHUP, SIGINT, SIGTERM};
const std::vector<int> kNotices{SIGUSR1, SIGUSR2};

KillPlan plan_of(const KillOrder& order) {
  return plan_kill(order, kEnds, kNotices, 10s, "somebody");
}

}  // namespace

TEST_CASE("An order survives the way through JSON; other questions are none") {
  const KillOrder order{SIGUSR1, {0, 3}, 1500ms, true};
  const auto read = kill_order_in(to_json(order));
  REQUIRE(read);
  CHECK(to_json(*read) == to_json(order));
  CHECK(read->ranks == order.ranks);
  CHECK(read->grace == 1500ms);
  REQUIRE(kill_order_in(to_json(KillOrder{})));
  CHECK_FALSE(kill_order_in(to_json(KillOrder{}))->grace);
  for (const char* question : {"{}", "[]", "{\"ranks\":[1]}", "1"}) CHECK_FALSE(kill_order_in(question));
}

TEST_CASE("An order that no muster gives is refused") {
  const std::string good = R"({"kill":{"signal":15,"now":false,"ranks":[0],"grace_ms":1}})";
  REQUIRE(kill_order_in(good));
  const auto with = [&good](const std::string& what, const std::string& other) {
    std::string text = good;
    return text.replace(text.find(what), what.size(), other);
  };
  for (const std::string& bad :
       {std::string("{"), std::string(), std::string(R"({"kill":{}})"), std::string(R"({"kill":1})"),
        with("15", "0"), with("15", "65"), with("15", "\"TERM\""), with("[0]", "[-1]"), with("[0]", "{}"),
        with("[0]", "[\"x\"]"), with("false", "0"), with(":1}", ":-1}"), with(":1}", ":100000000001}"),
        with(":1}", ":1e300}"), with(",\"grace_ms\":1", "")}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(kill_order_in(bad), std::invalid_argument);
  }
  std::string many = "[0";
  for (int i = 0; i < 70'000; ++i) many += ",0";
  CHECK_THROWS_AS(kill_order_in(with("[0]", many + "]")), std::invalid_argument);
}

TEST_CASE("What a job does about an order") {
  using Kind = KillPlan::Kind;
  const KillPlan usual = plan_of({});
  CHECK(usual.kind == Kind::end);
  CHECK(usual.end.signal == SIGTERM);
  CHECK_FALSE(usual.end.now);
  CHECK(usual.end.by == "somebody");
  CHECK(plan_of({SIGHUP, {}, 2s, false}).end.grace == 2000ms);
  CHECK(plan_of({SIGTERM, {}, {}, true}).end.now);
  const KillPlan killed = plan_of({SIGKILL, {}, {}, false});
  CHECK(killed.kind == Kind::end);
  CHECK(killed.end.now);
  CHECK(killed.end.signal == SIGTERM);
  CHECK(plan_of({SIGUSR1, {}, {}, false}).kind == Kind::notice);
  CHECK(plan_of({SIGKILL, {1}, {}, false}).kind == Kind::ranks);
  CHECK(plan_of({SIGSTOP, {1}, {}, false}).kind == Kind::ranks);
  // SIGTERM ends every job.
  CHECK(plan_kill({}, {SIGUSR1}, {}, 10s, "").kind == Kind::end);
  CHECK(plan_kill({SIGUSR1, {}, {}, false}, {SIGUSR1}, {}, 10s, "").kind == Kind::end);
}

TEST_CASE("What a job does not understand it refuses, and says what it knows") {
  const KillPlan quit = plan_of({SIGQUIT, {}, {}, false});
  CHECK(quit.kind == KillPlan::Kind::refuse);
  CHECK(quit.refusal ==
        "SIGQUIT says nothing to it: it ends at SIGHUP, SIGINT, SIGTERM, and passes on SIGUSR1, SIGUSR2; "
        "with --rank LIST any signal is sent to ranks");
  CHECK(plan_kill({SIGUSR1, {}, {}, false}, kEnds, {}, 10s, "").refusal.find("passes on") ==
        std::string::npos);
  CHECK(plan_of({SIGUSR1, {}, 1s, false}).kind == KillPlan::Kind::refuse);
  CHECK(plan_of({SIGTERM, {}, 40s, false}).kind == KillPlan::Kind::end);
  CHECK(plan_of({SIGTERM, {}, 40'001ms, false}).refusal.find("at most 40 s, 30 s more than") !=
        std::string::npos);
  CHECK(plan_of({SIGTERM, {0}, 1s, false}).kind == KillPlan::Kind::refuse);
  CHECK(plan_of({SIGTERM, {0}, {}, true}).kind == KillPlan::Kind::refuse);
}

TEST_CASE("People are told who asks for what") {
  const KillOrder now{SIGTERM, {}, {}, true};
  CHECK(kill_author({}, 1000, 7) == "'muster kill' (uid 1000, process 7)");
  CHECK(kill_author(now, 0, 0) == "'muster kill --now' (uid 0, process 0)");
  CHECK(kill_author({SIGKILL, {1}, {}, false}, 0, 1) == "'muster kill' (uid 0, process 1)");
  const auto text = [](const KillOrder& order) { return plan_text(order, plan_of(order), "X"); };
  CHECK(text({}) == "X ends the job with SIGTERM");
  CHECK(text(now) == "X ends the job: killing all workers");
  CHECK(text({SIGUSR1, {}, {}, false}) ==
        "X: SIGUSR1 is passed on to the workers that handle it; the job goes on");
  CHECK(text({SIGKILL, {0, 1, 5}, {}, false}) == "X sends SIGKILL to ranks 0, 1, 5");
}

TEST_CASE("What came of a signal is one line, and whether that is what was wanted") {
  const KillOrder ranks{SIGTERM, {1, 3}, {}, false};
  const KillOrder notice{SIGUSR1, {}, {}, false};
  KillAnswer answer;
  answer.job = "train-1\x1b";
  answer.got = {1, 3};
  CHECK(delivery_text(ranks, answer) == "SIGTERM was sent to ranks 1, 3 of job train-1\\x1b");
  CHECK(delivered(ranks, answer));
  answer.got = {1};
  answer.without = {3};
  CHECK(delivery_text(ranks, answer) ==
        "SIGTERM was sent to rank 1 of job train-1\\x1b; rank 3 does not run");
  CHECK_FALSE(delivered(ranks, answer));
  answer.without = {0, 3};
  CHECK(delivery_text(notice, answer) ==
        "SIGUSR1 was passed on to rank 1 of job train-1\\x1b; ranks 0, 3 do not handle it");
  CHECK(delivered(notice, answer));
  answer.silent = {"n01"};
  CHECK(delivery_text(notice, answer).ends_with("; no answer for 3 s from n01, where it may come later"));
  CHECK_FALSE(delivered(notice, answer));
  CHECK(delivery_text(notice, {.job = "a-1"}) == "SIGUSR1 was passed on to no rank of job a-1");
  CHECK_FALSE(delivered(notice, {.job = "a-1"}));
}

TEST_CASE("Answers survive the way through JSON; what is none is refused") {
  KillAnswer answer;
  answer.job = "a-1";
  answer.refusal = "no";
  answer.ends_within = 73s;
  answer.got = {1};
  answer.without = {2, 3};
  answer.silent = {"n01"};
  CHECK(to_json(kill_answer_from_json(to_json(answer))) == to_json(answer));
  const KillEnd end{"a-1", 143, "interrupted by SIGTERM\nand more \x1b"};
  CHECK(to_json(kill_end_from_json(to_json(end))) == to_json(end));
  CHECK(end_text(end) == "job a-1 ended: exit code 143, interrupted by SIGTERM");
  CHECK(end_text({"a-1", 0, ""}) == "job a-1 ended: exit code 0");
  for (const char* wrong :
       {"", "{}", "[]", "{", R"({"schema":"muster.job","version":1})",
        R"({"schema":"muster.kill","version":2})", R"({"schema":"muster.kill","version":1})"}) {
    CHECK_THROWS_AS(kill_answer_from_json(wrong), std::invalid_argument);
    CHECK_THROWS_AS(kill_end_from_json(wrong), std::invalid_argument);
  }
}
