// SPDX-License-Identifier: Apache-2.0
// Sessions: broken and resumed connections, silence, strangers of other runs, the launcher's presence.
#include "tests/unit/rendezvous/core/desk.hpp"

#include <algorithm>

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

Hello hello_of(const std::string& node, std::uint64_t incarnation, SessionId session = 0) {
  Hello hello;
  hello.run_id = "job";
  hello.node = node;
  hello.incarnation = incarnation;
  hello.session = session;
  return hello;
}

CoordinatorOptions with_nonce() {
  CoordinatorOptions options = Desk::options(2, 2);
  options.nonce = "5eed";
  options.software = "0.5.0";
  return options;
}

}  // namespace

TEST_CASE("A broken connection costs nothing when it is taken up again in time") {
  Desk desk(with_nonce(), 2);
  CHECK(desk.coordinator.in_running_round(2));
  desk.cut(2, Ending::broken);
  CHECK_FALSE(desk.sent<RoundEnd>(1).has_value());
  CHECK(contains(desk.notes(), "node b (host host): connection closed; it may come back"));
  desk.pass(1s);
  CHECK(desk.coordinator.session_of("b") == 2);

  Hello again = hello_of("b", 2, 2);
  again.nonce = "5eed";
  REQUIRE(desk.coordinator.resumes(again) == 2);
  desk.effects = desk.coordinator.on_resume(2, "10.0.0.2:4001", desk.now);
  REQUIRE(std::holds_alternative<effect::Send>(desk.effects.at(0)));
  CHECK(desk.sent<HelloOk>(2)->session == 2);
  CHECK(desk.sent<HelloOk>(2)->nonce == "5eed");
  CHECK(contains(desk.notes(), "node b (host host) is back after 1000 ms"));
  desk.send(1, Heartbeat{1});
  desk.pass(4s);
  desk.send(1, Heartbeat{1});
  CHECK(desk.coordinator.session_of("b") == 2);
}

TEST_CASE("Only the same process may take up a session") {
  Desk desk(with_nonce(), 2);
  CHECK(desk.coordinator.resumes(hello_of("b", 2, 2)) == 2);
  CHECK_FALSE(desk.coordinator.resumes(hello_of("b", 3, 2)).has_value());
  CHECK_FALSE(desk.coordinator.resumes(hello_of("b", 2, 1)).has_value());
  CHECK_FALSE(desk.coordinator.resumes(hello_of("c", 2, 2)).has_value());
  Hello other_run = hello_of("b", 2, 2);
  other_run.nonce = "beef";
  CHECK_FALSE(desk.coordinator.resumes(other_run).has_value());
  Hello other_job = hello_of("b", 2, 2);
  other_job.run_id = "other";
  CHECK_FALSE(desk.coordinator.resumes(other_job).has_value());
  Hello old = hello_of("b", 2, 2);
  old.version_min = old.version_max = 1;
  CHECK_FALSE(desk.coordinator.resumes(old).has_value());
  Hello launcher = hello_of("b", 2, 2);
  launcher.role = Role::launcher;
  CHECK_FALSE(desk.coordinator.resumes(launcher).has_value());
  // It has never heard its session's number, so nothing of the session can have come to it.
  CHECK(desk.coordinator.resumes(hello_of("b", 2)) == 2);
  Hello knowing = hello_of("b", 2);
  knowing.received = 1;
  CHECK_FALSE(desk.coordinator.resumes(knowing).has_value());
}

TEST_CASE("A broken connection that stays broken is a lost node, and cannot come back") {
  Desk desk(with_nonce(), 2);
  desk.cut(2, Ending::broken);
  for (int second = 0; second < 4; ++second) {
    desk.pass(1s);
    desk.send(1, Heartbeat{1});
    CHECK(desk.count<effect::Disconnect>() == 0);
  }
  desk.pass(1s);
  CHECK(desk.count<effect::Disconnect>() == 1);
  REQUIRE(desk.sent<RoundEnd>(1).has_value());
  CHECK(contains(desk.sent<RoundEnd>(1)->text, "node b (host host) is lost: silent for 5000 ms"));
  CHECK_FALSE(desk.coordinator.resumes(hello_of("b", 2, 2)).has_value());
  desk.effects = desk.coordinator.on_message(7, hello_of("b", 2, 2), desk.now);
  CHECK(desk.sent<ErrorReply>(7)->code == Errc::job_over);
  CHECK(contains(desk.sent<ErrorReply>(7)->text, "the session of node b has ended"));
  CHECK(desk.count<effect::Disconnect>() == 1);
}

TEST_CASE("A broken connection of a node whose processes have ended is a lost node at once") {
  const NodeState ended{"b", "guardian and agent there were killed by SIGKILL", false, true};
  for (const bool broken_first : {true, false}) {
    Desk desk(with_nonce(), 2);
    desk.launcher(9);
    if (broken_first) desk.cut(2, Ending::broken);
    desk.send(9, ended);
    if (!broken_first) {
      // What it had sent may still be on its way.
      CHECK_FALSE(desk.sent<RoundEnd>(1).has_value());
      desk.cut(2, Ending::broken);
    }
    CHECK(desk.count<effect::Disconnect>() == (broken_first ? 1 : 0));
    REQUIRE(desk.sent<RoundEnd>(1).has_value());
    CHECK(desk.sent<RoundEnd>(1)->cause == RoundEndCause::node_lost);
    CHECK(contains(desk.sent<RoundEnd>(1)->text,
                   "node b (host host) is lost: guardian and agent there were killed"));
    CHECK(desk.coordinator.member(2) == nullptr);
    desk.send(9, ended);  // of a node that is not known any more
    CHECK(desk.count<effect::Disconnect>() == 0);
  }
}

TEST_CASE("A node that the launcher has given up is not waited for, and not taken in later") {
  CoordinatorOptions options = with_restarts(2, 3, 0);
  options.expected_nodes = {"a", "b", "c"};
  options.only_expected = true;
  Desk desk(options);
  desk.launcher(9);
  desk.come(1, "a");
  desk.come(2, "b");
  CHECK(desk.count<effect::OpenStore>() == 0);
  NodeState gone{"c", "what led there was killed by signal 9", false, true, true};
  const std::string text = "the launcher has given node c up: what led there was killed by signal 9";
  SECTION("before it came") {
    desk.send(9, gone);
    CHECK(desk.count<effect::OpenStore>() == 1);
    desk.hello(3, "c");
    REQUIRE(desk.sent<ErrorReply>(3).has_value());
    CHECK(desk.sent<ErrorReply>(3)->code == Errc::job_over);
    CHECK(contains(desk.sent<ErrorReply>(3)->text, text));
    CHECK(desk.count<effect::Disconnect>() == 1);
  }
  SECTION("when it had come") {
    desk.hello(3, "c");
    SECTION("and joined") {
      desk.join(3);
    }
    SECTION("and runs") {
      desk.join(3);
      desk.open(0);
    }
    desk.send(9, gone);
    REQUIRE(desk.sent<ErrorReply>(3).has_value());
    CHECK(contains(desk.sent<ErrorReply>(3)->text, text));
    CHECK(desk.count<effect::Disconnect>() == 1);
    CHECK(desk.coordinator.member(3) == nullptr);
    Hello again;
    again.run_id = "job";
    again.node = "c";
    again.incarnation = 3;
    desk.effects = desk.coordinator.on_message(4, again, desk.now);
    CHECK(desk.sent<ErrorReply>(4).has_value());
  }
  SECTION("whose guardian alone is gone, it may end by itself") {
    desk.hello(3, "c");
    gone.given_up = false;
    desk.send(9, gone);
    CHECK(desk.count<effect::Disconnect>() == 0);
  }
}

TEST_CASE("Silence is judged when it is due, not at the next second") {
  Desk desk(with_nonce(), 2);
  desk.pass(400ms);
  desk.send(2, Heartbeat{1});
  for (int i = 0; i < 4; ++i) {
    desk.pass(1s);
    desk.send(1, Heartbeat{1});
  }
  // b was heard last at 0.4 s, and now it is 4.4 s.
  desk.pass(999ms);
  CHECK(desk.count<effect::Disconnect>() == 0);
  desk.pass(1ms);
  CHECK(desk.count<effect::Disconnect>() == 1);
}

TEST_CASE("Where silence is not judged, a broken connection is a lost node at once") {
  CoordinatorOptions options = with_nonce();
  options.membership.dead_after = 0ms;
  Desk desk(options, 2);
  desk.cut(2, Ending::broken);
  CHECK(desk.sent<RoundEnd>(1)->cause == RoundEndCause::node_lost);
}

TEST_CASE("A silence of less than 3 s changes nothing and says nothing") {
  Desk desk(with_nonce(), 2);
  for (const Milliseconds silence : {500ms, 1000ms, 2000ms, 2900ms}) {
    for (Milliseconds passed = 0ms; passed < silence; passed += 500ms) {
      desk.pass(std::min(500ms, silence - passed));
      CHECK(desk.notes().empty());
      CHECK(desk.count<effect::Send>() == 0);
    }
    desk.send(1, Heartbeat{1});
    desk.send(2, Heartbeat{1});
  }
  desk.pass(1500ms);
  desk.pass(1500ms);
  CHECK(contains(desk.notes(), "node a (host host) has not been heard for 3000 ms"));
  desk.send(1, Heartbeat{1});
  desk.send(2, Heartbeat{1});
  desk.pass(1s);
  CHECK(contains(desk.notes(), "node a (host host) is heard again"));
  CHECK(desk.count<effect::Disconnect>() == 0);
}

TEST_CASE("A second node of the same name is refused, and both are named") {
  Desk desk(2, 2);
  desk.coordinator.on_connect(1, "10.0.0.5:4711");
  Hello first = hello_of("n2", 1);
  first.host = "h1";
  desk.effects = desk.coordinator.on_message(1, first, desk.now);
  desk.coordinator.on_connect(2, "10.0.0.9:815");
  Hello second = hello_of("n2", 2);
  second.host = "h2";
  desk.effects = desk.coordinator.on_message(2, second, desk.now);
  CHECK(desk.sent<ErrorReply>(2)->code == Errc::mend);
  CHECK(
      desk.sent<ErrorReply>(2)->text ==
      "node n2 already joined from 10.0.0.5:4711 (host h1), and this one comes from 10.0.0.9:815 (host h2); "
      "give each node its own name, or end the other one");
  desk.cut(1, Ending::broken);
  desk.effects = desk.coordinator.on_message(3, second, desk.now);
  CHECK(desk.sent<ErrorReply>(3)->code == Errc::again);
}

TEST_CASE("An agent of an earlier run is refused as such") {
  Desk desk(with_nonce());
  Hello hello = hello_of("a", 1);
  hello.nonce = "beef";
  desk.effects = desk.coordinator.on_message(1, hello, desk.now);
  CHECK(desk.sent<ErrorReply>(1)->code == Errc::job_over);
  CHECK(contains(desk.sent<ErrorReply>(1)->text, "node a belongs to an earlier run of job 'job'"));
  CHECK(desk.count<effect::Disconnect>() == 1);
}

TEST_CASE("Another version is told both sides' versions") {
  Desk desk(with_nonce());
  Hello hello = hello_of("a", 1);
  hello.version_min = hello.version_max = 1;
  hello.software = "0.4.0";
  desk.effects = desk.coordinator.on_message(1, hello, desk.now);
  CHECK(desk.sent<ErrorReply>(1)->code == Errc::upgrade);
  CHECK(
      desk.sent<ErrorReply>(1)->text ==
      "node a speaks control protocol 1..1 (muster 0.4.0), this coordinator 4..4 (muster 0.5.0); install the "
      "same muster on both");
}

TEST_CASE("The launcher's presence is known, and for how long it has been gone") {
  Desk desk(with_nonce(), 2);
  desk.send(1, LauncherState{});
  CHECK(desk.sent<LauncherState>(1) == LauncherState{false, false, 0ms});
  desk.launcher(9);
  CHECK(desk.coordinator.launcher_session() == 9);
  desk.send(1, LauncherState{});
  CHECK(desk.sent<LauncherState>(1) == LauncherState{true, true, 0ms});
  desk.launcher(10);
  CHECK(contains(desk.sent<ErrorReply>(10)->text, "the launcher already joined"));

  SECTION("its process has ended") {
    desk.cut(9);
    desk.now += 700ms;
    desk.send(1, LauncherState{});
    CHECK(desk.sent<LauncherState>(1) == LauncherState{true, false, 700ms, true});
    CHECK_FALSE(desk.coordinator.launcher_session().has_value());
    desk.launcher(11);
    desk.send(1, LauncherState{});
    CHECK(desk.sent<LauncherState>(1) == LauncherState{true, true, 0ms});
  }
  SECTION("its connection is broken") {
    desk.cut(9, Ending::broken);
    desk.now += 200ms;
    desk.send(1, LauncherState{});
    CHECK(desk.sent<LauncherState>(1) == LauncherState{true, false, 200ms});
    Hello again = hello_of("launcher", 9, 9);
    again.role = Role::launcher;
    REQUIRE(desk.coordinator.resumes(again) == 9);
    desk.effects = desk.coordinator.on_resume(9, "", desk.now);
    desk.send(1, LauncherState{});
    CHECK(desk.sent<LauncherState>(1) == LauncherState{true, true, 0ms});
  }
  SECTION("it has fallen silent: gone since it was heard last") {
    for (int i = 0; i < 3; ++i) {
      desk.pass(1s);
      for (const SessionId session : {1U, 2U}) desk.send(session, Heartbeat{1});
    }
    desk.send(1, LauncherState{});
    CHECK(desk.sent<LauncherState>(1) == LauncherState{true, false, 3000ms});
    for (int i = 0; i < 3; ++i) {
      desk.pass(1s);
      for (const SessionId session : {1U, 2U}) desk.send(session, Heartbeat{1});
    }
    CHECK_FALSE(desk.coordinator.launcher_session().has_value());
    desk.send(1, LauncherState{});
    CHECK(desk.sent<LauncherState>(1) == LauncherState{true, false, 6000ms, true});
  }
}

TEST_CASE("What belongs to the shell is a sign of life and nothing else") {
  Desk desk(with_nonce(), 2);
  for (const Message& message : {Message(Vouched{1, true, ""}), Message(ChannelOpen{})}) {
    desk.send(1, message);
    CHECK(desk.count<effect::Send>() == 0);
  }
}
