// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/job_choice.hpp"

#include "rendezvous/protocol/limits.hpp"
#include "tests/unit/rendezvous/core/desk.hpp"

#include <functional>
#include <utility>
#include <vector>

namespace job_choice_test {

using namespace muster::rendezvous;
using Kind = JobChoice::Kind;

namespace {

Hello node_hello() {
  Hello hello;
  hello.run_id = "A";
  hello.node = "n01:77-1f";
  hello.host = "n01";
  hello.incarnation = 7;
  hello.limits = JobLimits{2, 2};
  return hello;
}

KnownJob running_job() {
  KnownJob job;
  job.limits = JobLimits{2, 2};
  job.stated_by = "node n00";
  return job;
}

/// A hello and a job that differ from the usual ones, and what is chosen then.
struct Row {
  const char* title;
  std::function<void(Hello&, KnownJob&)> change;
  bool is_there;
  Kind expected;
  const char* words;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"the first node", [](Hello&, KnownJob&) {}, false, Kind::create, ""},
      {"a second node", [](Hello&, KnownJob&) {}, true, Kind::join, ""},
      {"a run that is over", [](Hello&, KnownJob& job) { job.over = true; }, true, Kind::create, ""},
      {"all nodes killed", [](Hello&, KnownJob& job) { job.is_ghost = true; }, true, Kind::create, ""},
      {"the same, with other limits",
       [](Hello& hello, KnownJob& job) {
         job.is_ghost = true;
         hello.limits->max_restarts = 5;
       },
       true, Kind::create, ""},
      {"one of them after all", [](Hello&, KnownJob& job) { job.is_ghost = job.has_peer = true; }, true,
       Kind::join, ""},
      {"a node of the run that is over, which asks how",
       [](Hello& hello, KnownJob& job) {
         job.over = true;
         hello.session = 3;
       },
       true, Kind::join, ""},
      {"a node of an earlier run, by its nonce",
       [](Hello& hello, KnownJob& job) {
         job.is_ghost = true;
         hello.nonce = "5eed";
       },
       true, Kind::join, ""},
      {"a node of a forgotten run", [](Hello& hello, KnownJob&) { hello.nonce = "5eed"; }, false,
       Kind::refuse, "node n01 belongs to a run of job 'A' that is over"},
      {"no limits", [](Hello& hello, KnownJob&) { hello.limits.reset(); }, false, Kind::refuse,
       "node n01 does not say how many nodes"},
      {"no limits, later", [](Hello& hello, KnownJob&) { hello.limits.reset(); }, true, Kind::refuse,
       "node n01 does not say how many nodes"},
      {"no name", [](Hello& hello, KnownJob&) { hello.run_id.clear(); }, false, Kind::refuse,
       "give --rdzv-id NAME"},
      {"the default name", [](Hello& hello, KnownJob&) { hello.run_id = "none"; }, false, Kind::refuse,
       "give --rdzv-id NAME"},
      {"the default name, later", [](Hello& hello, KnownJob&) { hello.run_id = "none"; }, true, Kind::refuse,
       "give --rdzv-id NAME"},
      {"a launcher", [](Hello& hello, KnownJob&) { hello.role = Role::launcher; }, true, Kind::refuse,
       "started on each host"},
      {"an observer of a job", [](Hello& hello, KnownJob&) { hello.role = Role::observer; }, true,
       Kind::refuse, "not for that of a job"},
      {"an observer",
       [](Hello& hello, KnownJob&) {
         hello.role = Role::observer;
         hello.run_id.clear();
         hello.limits.reset();
       },
       false, Kind::observe, ""},
  };
  return all;
}

}  // namespace

TEST_CASE("A hello goes to the job that is there, to a new one, or nowhere") {
  for (const Row& row : rows()) {
    INFO(row.title);
    Hello hello = node_hello();
    KnownJob job = running_job();
    row.change(hello, job);
    const JobChoice choice = choose_job(hello, row.is_there ? &job : nullptr, 3);
    CHECK(choice.kind == row.expected);
    CHECK(contains(choice.text, row.words));
    CHECK(choice.text.empty() == (row.expected != Kind::refuse));
  }
}

TEST_CASE("A node with other limits is refused with both values, whichever differs") {
  const std::vector<std::pair<std::function<void(JobLimits&)>, std::string>> differences = {
      {[](JobLimits& limits) { limits.min_nodes = 1; }, "--nnodes=1:2"},
      {[](JobLimits& limits) { limits.max_nodes = 4; }, "--nnodes=2:4"},
      {[](JobLimits& limits) { limits.max_restarts = 9; }, "--max-restarts=9"},
      {[](JobLimits& limits) { limits.restart_rule = RestartRule::torchrun; }, "--restart-policy=torchrun"},
      {[](JobLimits& limits) { limits.join_timeout = Milliseconds(5); }, "--rdzv-conf join_timeout=5 ms"},
      {[](JobLimits& limits) { limits.last_call_timeout = Milliseconds(6); },
       "--rdzv-conf last_call_timeout=6 ms"},
      {[](JobLimits& limits) { limits.hang_timeout = Milliseconds(7); }, "--hang-timeout=7 ms"},
      {[](JobLimits& limits) { limits.on_hang = HangAction::abort; }, "--on-hang=abort"},
      {[](JobLimits& limits) { limits.store_proxy = true; }, "--store-proxy=on"}};
  const KnownJob job = running_job();
  for (const auto& [change, words] : differences) {
    INFO(words);
    Hello hello = node_hello();
    change(*hello.limits);
    const JobChoice choice = choose_job(hello, &job, 0);
    CHECK(choice.kind == Kind::refuse);
    CHECK(choice.code == Errc::mend);
    CHECK(contains(choice.text, "node n01 has " + words + ", node n00, which opened job 'A', has --"));
  }
}

TEST_CASE("No more jobs than the bound, but the nodes of those that are there") {
  const KnownJob job = running_job();
  CHECK(choose_job(node_hello(), nullptr, kMaxHostedJobs - 1).kind == Kind::create);
  const JobChoice choice = choose_job(node_hello(), nullptr, kMaxHostedJobs);
  CHECK(choice.kind == Kind::refuse);
  CHECK(choice.code == Errc::environment);
  CHECK(contains(choice.text, "hosts 64 jobs"));
  CHECK(choose_job(node_hello(), &job, kMaxHostedJobs).kind == Kind::join);
}

TEST_CASE("A job that is ended from outside tells everybody, once") {
  Desk desk(2, 2, 2);
  CHECK(desk.coordinator.status(desk.now).text == "round 0 runs on 2 nodes: host, host");
  desk.effects = desk.coordinator.close("the daemon was ended", desk.now);
  for (const SessionId session : {SessionId{1}, SessionId{2}}) {
    REQUIRE(desk.sent<JobClosed>(session));
    CHECK(desk.sent<JobClosed>(session)->reason == "the daemon was ended");
    CHECK(desk.sent<JobClosed>(session)->exit_code == 125);
    CHECK_FALSE(desk.sent<JobClosed>(session)->succeeded);
  }
  CHECK(desk.count<effect::EndJob>() == 1);
  // That is why the round ends, and not the first node that has stopped its workers.
  desk.send(1, LeaveRound{0, RoundOutcome::stopped, 143, "a was told to stop"});
  CHECK(desk.sent<Left>(1)->next == NextStep::end);
  CHECK_FALSE(desk.sent<RoundEnd>(2));
  desk.send(2, LeaveRound{0, RoundOutcome::stopped, 143, "b was told to stop"});
  CHECK(desk.count<effect::CloseStore>() == 1);
  desk.effects = desk.coordinator.close("again", desk.now);
  CHECK(desk.count<effect::EndJob>() == 0);
  CHECK(desk.coordinator.status(desk.now).over);
  CHECK(desk.coordinator.status(desk.now).text == "over: the daemon was ended");
}

TEST_CASE("A broken connection is not counted as a connected node") {
  Desk desk(2, 2, 2);
  CHECK(desk.coordinator.connected_nodes() == 2);
  desk.cut(2, Ending::broken);
  CHECK(desk.coordinator.connected_nodes() == 1);
  CHECK(desk.coordinator.nodes() == 2);
  CHECK(desk.coordinator.status(desk.now).nodes == 1);
}

}  // namespace job_choice_test
