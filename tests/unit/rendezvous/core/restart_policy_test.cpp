// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/restart_policy.hpp"

#include "catch.hpp"

#include <string>
#include <vector>

namespace restart_policy_test {

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

EndedRound failed_with(int exit_code, const std::string& error_line = "") {
  EndedRound round;
  round.exit_code = exit_code;
  round.error_line = error_line;
  round.lasted = 2s;
  return round;
}

EndedRound killed_by(int signal) {
  EndedRound round = failed_with(128 + signal);
  round.signal = signal;
  return round;
}

EndedRound lost(int nodes_left) {
  EndedRound round;
  round.cause = RoundEndCause::node_lost;
  round.exit_code = 125;
  round.nodes = nodes_left;
  return round;
}

RestartPolicy with(RestartRule rule, int max_restarts = 100) {
  return RestartPolicy({1, 1, max_restarts, rule});
}

RestartPolicy of_two(RestartRule rule, int max_restarts) {
  return RestartPolicy({2, 2, max_restarts, rule, 40s});
}

RestartPolicy elastic(RestartRule rule, int max_restarts) {
  return RestartPolicy({2, 4, max_restarts, rule});
}

/// Whether each of these ends is followed by another round.
std::vector<bool> answers(RestartPolicy policy, const std::vector<EndedRound>& rounds) {
  std::vector<bool> again;
  again.reserve(rounds.size());
  for (const EndedRound& round : rounds) again.push_back(policy.decide(round).again);
  return again;
}

}  // namespace

TEST_CASE("The first restart comes at once, each later one waits twice as long, up to 30 s") {
  const std::vector<Milliseconds> delays{0s, 1s, 2s, 4s, 8s, 16s, 30s, 30s, 30s};
  RestartPolicy policy = with(RestartRule::backoff);
  for (std::size_t i = 0; i < delays.size(); ++i) {
    CAPTURE(i);
    const RestartPolicy::Decision decision = policy.decide(failed_with(3));
    CHECK(decision.again);
    CHECK(decision.delay == delays[i]);
    CHECK(policy.restarts() == static_cast<int>(i) + 1);
  }
  CHECK(RestartPolicy::delay_before(1 << 30) == 30s);
}

TEST_CASE("What is said about a restart") {
  RestartPolicy policy = with(RestartRule::backoff, 3);
  CHECK(policy.decide(failed_with(3)).text == "restarting all workers (restart 1 of 3)");
  CHECK(policy.decide(failed_with(3)).text == "restarting all workers in 1 s (restart 2 of 3)");
  CHECK(policy.decide(killed_by(9)).text == "restarting all workers in 2 s (restart 3 of 3)");
  const RestartPolicy::Decision last = policy.decide(failed_with(3));
  CHECK_FALSE(last.again);
  CHECK(last.text == "no restart is left (--max-restarts 3)");
  CHECK(policy.restarts() == 3);
}

TEST_CASE("Exit codes 126 and 127 are final, but for --restart-policy torchrun") {
  for (const int code : {126, 127}) {
    CAPTURE(code);
    for (const RestartRule rule : {RestartRule::backoff, RestartRule::progress}) {
      RestartPolicy policy = with(rule);
      const RestartPolicy::Decision decision = policy.decide(failed_with(code));
      CHECK_FALSE(decision.again);
      CHECK(contains(decision.text, "no restart: exit code " + std::to_string(code)));
      CHECK(policy.restarts() == 0);
    }
    CHECK(with(RestartRule::torchrun).decide(failed_with(code)).again);
    // Where no restart is left anyway, that is the reason.
    CHECK(contains(with(RestartRule::backoff, 0).decide(failed_with(code)).text, "no restart is left"));
  }
  for (const int code : {1, 2, 125, 128, 255})
    CHECK(with(RestartRule::backoff).decide(failed_with(code)).again);
  CHECK(with(RestartRule::backoff).decide(killed_by(11)).again);
}

TEST_CASE("A lost node that an elastic job can do without costs nothing") {
  for (const RestartRule rule : {RestartRule::backoff, RestartRule::progress}) {
    RestartPolicy policy = elastic(rule, 1);
    for (int i = 0; i < 3; ++i) {
      const RestartPolicy::Decision decision = policy.decide(lost(2));
      CHECK(decision.again);
      CHECK(decision.delay == 0s);
      CHECK(contains(decision.text, "all workers start again and no restart is used up"));
      CHECK(policy.restarts() == 0);
    }
    // Below the minimum it waits for a newcomer, which costs one.
    CHECK(policy.decide(lost(1)).again);
    CHECK(policy.restarts() == 1);
    CHECK(contains(policy.decide(lost(1)).text, "no restart is left (--max-restarts 1)"));
    CHECK(policy.decide(lost(2)).again);
  }
  CHECK(elastic(RestartRule::backoff, 0).decide(lost(3)).again);
}

TEST_CASE("A lost node costs a restart under --restart-policy torchrun, and where it is needed") {
  CHECK_FALSE(elastic(RestartRule::torchrun, 0).decide(lost(3)).again);
  RestartPolicy policy = elastic(RestartRule::torchrun, 1);
  CHECK(policy.decide(lost(3)).again);
  CHECK(policy.restarts() == 1);
  EndedRound fixed = lost(0);
  fixed.enough = false;
  const RestartPolicy::Decision decision = with(RestartRule::backoff).decide(fixed);
  CHECK_FALSE(decision.again);
  CHECK(decision.lacks_nodes);
  CHECK(decision.text == "0 nodes are left, and the job needs 1");
}

TEST_CASE("A job of fixed size waits for a node that it has lost, while a restart is left for that") {
  const std::string waits =
      "1 node is left, and the job needs 2: waiting up to 40 s for it to come back, or for another in its "
      "place, then restarting all workers (restart 1 of 1)";
  for (const RestartRule rule : {RestartRule::backoff, RestartRule::progress, RestartRule::torchrun}) {
    for (const RoundEndCause cause : {RoundEndCause::node_lost, RoundEndCause::node_left}) {
      EndedRound round = lost(1);
      round.cause = cause;
      RestartPolicy policy = of_two(rule, 1);
      const RestartPolicy::Decision first = policy.decide(round);
      CHECK(first.again);
      CHECK(first.text == waits);
      CHECK(policy.restarts() == 1);
      const RestartPolicy::Decision second = policy.decide(round);
      CHECK_FALSE(second.again);
      CHECK(second.text == "1 node is left, and the job needs 2, and no restart is left (--max-restarts 1)");
      // Nobody else has a key, as where the launcher started the nodes by name.
      round.enough = false;
      CHECK(of_two(rule, 1).decide(round).text == "1 node is left, and the job needs 2");
      CHECK_FALSE(of_two(rule, 1).decide(round).again);
    }
  }
}

TEST_CASE("Ctrl-C at one launcher of a job of fixed size is the end of it") {
  EndedRound round = lost(1);
  round.cause = RoundEndCause::node_left;
  round.exit_code = 130;
  RestartPolicy policy = of_two(RestartRule::backoff, 3);
  CHECK_FALSE(policy.decide(round).again);
  CHECK(policy.decide(round).text == "1 node is left, and the job needs 2");
  CHECK(policy.restarts() == 0);
  round.exit_code = 143;
  CHECK(policy.decide(round).again);
}

TEST_CASE("Nodes that come or leave cost an elastic job nothing, whatever the rule") {
  for (const RestartRule rule : {RestartRule::backoff, RestartRule::progress, RestartRule::torchrun}) {
    for (const RoundEndCause cause : {RoundEndCause::nodes_waiting, RoundEndCause::node_left}) {
      RestartPolicy policy = elastic(rule, 0);
      EndedRound round;
      round.cause = cause;
      round.nodes = 3;
      const RestartPolicy::Decision decision = policy.decide(round);
      CHECK(decision.again);
      CHECK(decision.delay == 0s);
      CHECK(decision.text == "all workers start again");
      CHECK(policy.restarts() == 0);
      round.enough = false;
      CHECK(policy.decide(round).lacks_nodes);
    }
  }
}

TEST_CASE("Progress: the third failure for the same reason is the last") {
  const EndedRound failure = failed_with(3, "ValueError: no luck");
  RestartPolicy policy = with(RestartRule::progress);
  CHECK(policy.decide(failure).delay == 0s);
  CHECK(policy.decide(failure).delay == 1s);
  const RestartPolicy::Decision decision = policy.decide(failure);
  CHECK_FALSE(decision.again);
  CHECK(decision.text ==
        "no restart: 3 rounds in a row failed with exit code 3 and 'ValueError: no luck', each within 30 s "
        "and without a step (--restart-policy progress)");
  CHECK(policy.restarts() == 2);
  CHECK(answers(with(RestartRule::progress), {killed_by(6), killed_by(6), killed_by(6)}) ==
        std::vector<bool>{true, true, false});
  CHECK(answers(with(RestartRule::backoff), {failure, failure, failure, failure}) ==
        std::vector<bool>{true, true, true, true});
}

TEST_CASE("Progress: numbers in the error line differ, the reason does not") {
  CHECK(answers(with(RestartRule::progress),
                {failed_with(1, "[rank0] 12:01:07 error at 0x7f3a00b2 in process 4711"),
                 failed_with(1, "[rank3] 12:01:09 error at 0x55e0 in process 4750"),
                 failed_with(1, "[rank12] 12:02:00 error at 0x1 in process 9")}) ==
        std::vector<bool>{true, true, false});
}

TEST_CASE("Progress: whatever is different begins the count anew") {
  const EndedRound failure = failed_with(3, "ValueError");
  EndedRound long_round = failure;
  long_round.lasted = 30s;
  EndedRound stepped = failure;
  stepped.stepped = true;
  const EndedRound exit_139 = failed_with(139);
  for (const EndedRound& other : {long_round, stepped, failed_with(4, "ValueError"),
                                  failed_with(3, "KeyError"), failed_with(3), lost(1)}) {
    CAPTURE(other.exit_code);
    CAPTURE(other.error_line);
    CHECK(answers(with(RestartRule::progress), {failure, failure, other, failure, failure, failure}) ==
          std::vector<bool>{true, true, true, true, true, false});
  }
  CHECK(answers(with(RestartRule::progress), {exit_139, exit_139, killed_by(11)}) ==
        std::vector<bool>{true, true, true});
}

TEST_CASE("Progress: a node that comes between two failures changes nothing") {
  const EndedRound failure = failed_with(3);
  EndedRound newcomer;
  newcomer.cause = RoundEndCause::nodes_waiting;
  CHECK(answers(with(RestartRule::progress), {failure, failure, newcomer, failure}) ==
        std::vector<bool>{true, true, true, false});
}

TEST_CASE("As torchrun: at once, whatever failed, as often as is allowed") {
  RestartPolicy policy = with(RestartRule::torchrun, 5);
  for (int i = 0; i < 5; ++i) {
    const RestartPolicy::Decision decision = policy.decide(failed_with(127, "the same"));
    CHECK(decision.again);
    CHECK(decision.delay == 0s);
  }
  CHECK_FALSE(policy.decide(failed_with(1)).again);
}

TEST_CASE("Every rule has a name") {
  for (const RestartRule rule : {RestartRule::backoff, RestartRule::progress, RestartRule::torchrun})
    CHECK(restart_rule(name_of(rule)) == rule);
  CHECK_FALSE(restart_rule("never").has_value());
}

TEST_CASE("A hang that is not to stand costs a restart, or ends the job") {
  EndedRound hung;
  hung.cause = RoundEndCause::hung;
  JobLimits limits{1, 1, 2};
  limits.on_hang = HangAction::restart;
  RestartPolicy policy(limits);
  CHECK(policy.decide(hung).text == "restarting all workers (restart 1 of 2)");
  CHECK(policy.decide(hung).again);
  CHECK(policy.restarts() == 2);
  CHECK(policy.decide(hung).text == "no restart is left (--max-restarts 2)");
  limits.on_hang = HangAction::abort;
  RestartPolicy ends(limits);
  CHECK_FALSE(ends.decide(hung).again);
  CHECK(ends.decide(hung).text == "no restart: a job that is hung ends (--on-hang abort)");
  // What fails by itself is started again as ever.
  CHECK(ends.decide(failed_with(3)).again);
}

}  // namespace restart_policy_test
