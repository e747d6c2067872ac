// SPDX-License-Identifier: Apache-2.0
#include "agent/core/dial_judge.hpp"

#include "catch.hpp"

#include <utility>

using namespace muster::agent;
using namespace std::chrono_literals;
using muster::rendezvous::CoordinatorError;
using muster::rendezvous::Errc;
using muster::rendezvous::TimePoint;

namespace {

constexpr TimePoint kStart{};

AgentSpec peer(PeerNode node = {}) {
  AgentSpec spec;
  spec.node.form = std::move(node);
  spec.node.coordinator_host = "n0";
  return spec;
}

FailedDial failed(Errc code, const char* text = "it failed") {
  return {CoordinatorError(code, text), kStart};
}

FailedDial silent(TimePoint began) {
  return {CoordinatorError(Errc::deadline, "no answer"), began, true, true};
}

FailedDial nameless(bool no_such_name, TimePoint began = kStart) {
  return {CoordinatorError(Errc::environment, "no address"), began, false, false, true, no_such_name};
}

}  // namespace

TEST_CASE("Where a launcher has started the nodes, and once a round has begun, an error stays what it is") {
  AgentSpec started = peer();
  started.node.form = StartedNode{};
  DialJudge judge(started);
  const auto judgement = judge.judge(nameless(true), true, kStart + 1h);
  CHECK((judgement.error.code() == Errc::environment && judgement.waiting.empty()));
  CHECK(judge.last_trouble() == "no address");
  const AgentSpec spec = peer();
  CHECK(DialJudge(spec).judge(nameless(true), false, kStart).error.code() == Errc::environment);
}

TEST_CASE("A peer waits for a coordinator that is not there yet, and says for what") {
  PeerNode node;
  node.port_trouble = "port 29400 is taken by python";
  const AgentSpec spec = peer(node);
  DialJudge judge(spec);
  const auto judgement = judge.judge(failed(Errc::lost, "connection refused"), true, kStart);
  CHECK(judgement.error.code() == Errc::lost);
  CHECK(judgement.waiting == "connection refused; here: port 29400 is taken by python");
}

TEST_CASE(
    "What takes the connection and is no coordinator may be another program; after ten silent seconds it "
    "is") {
  const AgentSpec spec = peer();
  DialJudge judge(spec);
  FailedDial hung_up = silent(kStart);
  hung_up.silent = false;
  CHECK_THAT(judge.judge(hung_up, true, kStart + 1h).waiting, Contains("another program may listen there"));
  CHECK(judge.judge(silent(kStart), true, kStart + 9999ms).error.code() == Errc::deadline);
  const auto judgement = judge.judge(silent(kStart + 9s), true, kStart + 10s);
  CHECK(judgement.error.code() == Errc::mend);
  CHECK_THAT(judgement.error.what(), Contains("for 10 s something there") && Contains("'ss -ltnp' on n0"));
  // Another kind of failure in between begins the count anew.
  judge.judge(failed(Errc::lost), true, kStart + 11s);
  CHECK(judge.judge(silent(kStart + 12s), true, kStart + 21s).error.code() == Errc::deadline);
}

TEST_CASE("A name that does not resolve is waited for: 30 s if a name server says that there is none") {
  const AgentSpec spec = peer();
  DialJudge judge(spec);
  const auto unknown = judge.judge(nameless(false), true, kStart + 1h);
  CHECK(unknown.error.code() == Errc::lost);
  CHECK_THAT(unknown.waiting,
             Contains("names may appear late: tried again for 600 s; the host that it will name "
                      "needs --rdzv-conf is_host=1"));
  AgentSpec by_number = peer();
  by_number.node.node_rank = 1;
  CHECK_THAT(DialJudge(by_number).judge(nameless(false), true, kStart).waiting, !Contains("is_host"));
  const auto none = judge.judge(nameless(true), true, kStart + 29s);
  CHECK(none.error.code() == Errc::lost);
  CHECK_THAT(none.waiting, Contains("tried again for 30 s"));
  const auto late = judge.judge(nameless(true), true, kStart + 30s);
  CHECK((late.error.code() == Errc::mend && late.waiting.empty()));
  CHECK_THAT(late.error.what(), Contains("for 30 s there was no such name"));
}

TEST_CASE("A user who says how long to wait is heard") {
  PeerNode node;
  node.waits_for_name = true;
  const AgentSpec spec = peer(node);
  DialJudge judge(spec);
  CHECK(judge.judge(silent(kStart), true, kStart + 1h).error.code() == Errc::deadline);
  const auto judgement = judge.judge(nameless(true), true, kStart + 1h);
  CHECK(judgement.error.code() == Errc::lost);
  CHECK_THAT(judgement.waiting, Contains("tried again for 600 s"));
}

TEST_CASE("A wrong key is told with its file, or munge says who we are") {
  PeerNode node;
  const AgentSpec without = peer(node);
  CHECK(std::string(DialJudge(without).judge(failed(Errc::mend), true, kStart).error.what()) == "it failed");
  node.key_source = "/home/u/key";
  const AgentSpec spec = peer(node);
  const auto refused = DialJudge(spec).judge(failed(Errc::mend), true, kStart);
  CHECK(refused.error.code() == Errc::mend);
  CHECK_THAT(refused.error.what(), Contains("our key is /home/u/key: copy that of n0"));
  node.munge = true;
  const AgentSpec with_munge = peer(node);
  DialJudge judge(with_munge);
  CHECK_FALSE(judge.by_munge());
  const auto again = judge.judge(failed(Errc::mend), true, kStart);
  CHECK((again.error.code() == Errc::lost && again.begins_with_munge && judge.by_munge()));
  const auto in_vain = judge.judge(failed(Errc::mend), true, kStart);
  CHECK((in_vain.error.code() == Errc::mend && !in_vain.begins_with_munge));
}
