// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/core/remote_node.hpp"

#include "catch.hpp"

#include <map>

using namespace muster::launcher;
using namespace std::chrono_literals;
using muster::agent::LinkMessage;
using Action = RemoteNode::Action;
using Event = RemoteNode::Event;
using Phase = RemoteNode::Phase;
using Teller = HostFailure::Teller;

namespace {

const RemoteNode::TimePoint kBegin{};
const LinkMessage kAgentLost{LinkMessage::Kind::notice, LinkMessage::agent_lost, "killed by SIGKILL"};

struct Step {
  Phase next;
  Action action;
  bool operator==(const Step&) const = default;
};

/// Every transition that there is; all else is unexpected and changes nothing.
const std::map<std::pair<Phase, Event>, Step> kSteps{
    {{Phase::waiting, Event::turn}, {Phase::starting, Action::none}},
    {{Phase::waiting, Event::stop}, {Phase::over, Action::none}},
    {{Phase::starting, Event::refused}, {Phase::waiting, Action::none}},
    {{Phase::starting, Event::failed}, {Phase::over, Action::fail_start}},
    {{Phase::starting, Event::greeting}, {Phase::connected, Action::none}},
    {{Phase::starting, Event::stop}, {Phase::starting, Action::cut}},
    {{Phase::connected, Event::failed}, {Phase::over, Action::fail_start}},
    {{Phase::connected, Event::hello}, {Phase::greeted, Action::none}},
    {{Phase::connected, Event::ended}, {Phase::over, Action::fail_start}},
    {{Phase::connected, Event::stop}, {Phase::connected, Action::cut}},
    {{Phase::greeted, Event::orders}, {Phase::working, Action::send_spec}},
    {{Phase::greeted, Event::ended}, {Phase::over, Action::fail_start}},
    {{Phase::greeted, Event::stop}, {Phase::greeted, Action::cut}},
    {{Phase::working, Event::failed}, {Phase::over, Action::fail_start}},
    {{Phase::working, Event::report}, {Phase::reported, Action::none}},
    {{Phase::working, Event::lost_way}, {Phase::cut_off, Action::seek_way}},
    {{Phase::working, Event::ended}, {Phase::over, Action::lose}},
    {{Phase::working, Event::stop}, {Phase::working, Action::stop}},
    {{Phase::cut_off, Event::lost_way}, {Phase::cut_off, Action::seek_way}},
    {{Phase::cut_off, Event::new_way}, {Phase::relaying, Action::none}},
    {{Phase::cut_off, Event::ended}, {Phase::over, Action::lose}},
    {{Phase::cut_off, Event::stop}, {Phase::cut_off, Action::stop}},
    {{Phase::relaying, Event::carried}, {Phase::relayed, Action::none}},
    {{Phase::relaying, Event::report}, {Phase::reported, Action::none}},
    {{Phase::relaying, Event::ended}, {Phase::over, Action::lose}},
    {{Phase::relaying, Event::stop}, {Phase::relaying, Action::stop}},
    {{Phase::relayed, Event::report}, {Phase::reported, Action::none}},
    {{Phase::relayed, Event::ended}, {Phase::over, Action::lose}},
    {{Phase::relayed, Event::stop}, {Phase::relayed, Action::stop}},
    {{Phase::reported, Event::carried}, {Phase::reported, Action::none}},
    {{Phase::reported, Event::ended}, {Phase::over, Action::finish}},
};

/// Returns a node in that phase, on the shortest way there.
RemoteNode node_in(Phase phase) {
  const std::map<Phase, std::vector<Event>> ways{
      {Phase::waiting, {}},
      {Phase::starting, {Event::turn}},
      {Phase::connected, {Event::turn, Event::greeting}},
      {Phase::greeted, {Event::turn, Event::greeting, Event::hello}},
      {Phase::working, {Event::turn, Event::greeting, Event::hello, Event::orders}},
      {Phase::cut_off, {Event::turn, Event::greeting, Event::hello, Event::orders, Event::lost_way}},
      {Phase::relaying,
       {Event::turn, Event::greeting, Event::hello, Event::orders, Event::lost_way, Event::new_way}},
      {Phase::relayed,
       {Event::turn, Event::greeting, Event::hello, Event::orders, Event::lost_way, Event::new_way,
        Event::carried}},
      {Phase::reported, {Event::turn, Event::greeting, Event::hello, Event::orders, Event::report}},
      {Phase::over, {Event::stop}},
  };
  RemoteNode node("n1");
  for (const Event event : ways.at(phase)) node.take(event);
  REQUIRE(node.phase() == phase);
  return node;
}

/// Returns a node that has its part of the job, with a link.
RemoteNode working() {
  RemoteNode node("n1");
  node.start(kBegin, 10s);
  node.greeting();
  node.take(Event::hello);
  node.take(Event::orders);
  return node;
}

StartEnd exited(int code) {
  StartEnd end;
  end.exit_code = code;
  return end;
}

StartEnd killed(int signal) {
  StartEnd end;
  end.signal = signal;
  return end;
}

/// Ends link and process of a node; returns what is to be done then.
Action end(RemoteNode& node, const StartEnd& how) {
  CHECK_FALSE(node.link_closed(kBegin, 50s));
  CHECK(node.process_ended(how, kBegin));
  return node.conclude();
}

/// Returns a node whose link goes on through the coordinator.
RemoteNode relaying() {
  RemoteNode node = working();
  CHECK(end(node, killed(9)) == Action::seek_way);
  node.relay();
  return node;
}

}  // namespace

TEST_CASE("A node's table of transitions holds what is expected, and nothing else") {
  for (int phase = 0; phase <= static_cast<int>(Phase::over); ++phase) {
    for (int event = 0; event <= static_cast<int>(Event::stop); ++event) {
      INFO("phase " << phase << ", event " << event);
      const auto here = static_cast<Phase>(phase);
      const auto found = kSteps.find({here, static_cast<Event>(event)});
      const Step expected = found == kSteps.end() ? Step{here, Action::unexpected} : found->second;
      RemoteNode node = node_in(here);
      const Action action = node.take(static_cast<Event>(event));
      CHECK(Step{node.phase(), action} == expected);
    }
  }
}

TEST_CASE("A node is heard from its orders to its report") {
  for (int phase = 0; phase <= static_cast<int>(Phase::over); ++phase) {
    INFO("phase " << phase);
    const auto here = static_cast<Phase>(phase);
    const RemoteNode node = node_in(here);
    const bool works =
        here == Phase::working || here == Phase::cut_off || here == Phase::relaying || here == Phase::relayed;
    CHECK(node.awaits_report() == works);
    CHECK(node.instructed() == (works || here == Phase::reported));
    CHECK(node.starts() == (here == Phase::starting || here == Phase::connected));
  }
}

TEST_CASE("An agent must greet in time, and a copy that goes on gives it more") {
  RemoteNode node("n1");
  node.start(kBegin, 10s);
  CHECK(node.next_tick() == kBegin + 10s);
  CHECK(node.tick(kBegin + 9s) == Action::none);
  node.copying(1, 2, kBegin + 9s);
  CHECK(node.next_tick() == kBegin + 69s);
  CHECK(node.tick(kBegin + 69s) == Action::give_up_start);
  // It is late already.
  node.copying(2, 2, kBegin + 69s);
  CHECK_FALSE(node.next_tick());
  node.refused("busy");
  node.start(kBegin + 70s, 10s);
  node.greeting();
  CHECK_FALSE(node.next_tick());
}

TEST_CASE("A node that is cut while it starts gets no time for a copy") {
  RemoteNode node("n1");
  node.start(kBegin, 10s);
  node.sever(kBegin, false);
  node.copying(1, 2, kBegin);
  CHECK(node.next_tick() == kBegin + 2s);
  node.take(Event::failed);
  CHECK_FALSE(node.next_tick());
}

TEST_CASE("The coordinator's node says once, and soon, where the coordinator listens") {
  RemoteNode node = working();
  CHECK_FALSE(node.listening());
  node.await_listening(kBegin);
  CHECK(node.next_tick() == kBegin + 15s);
  CHECK(node.listening());
  CHECK_FALSE(node.listening());
  CHECK_FALSE(node.next_tick());

  RemoteNode late = working();
  late.await_listening(kBegin);
  CHECK(late.tick(kBegin + 15s) == Action::cut);
  late.sever(kBegin + 15s, false);
  CHECK_FALSE(late.listening());
  CHECK(late.next_tick() == kBegin + 17s);
  CHECK(late.tick(kBegin + 17s) == Action::end_way);
  CHECK(late.process_ended(killed(9), kBegin + 17s));
  CHECK(late.conclude() == Action::lose);
  CHECK(late.failure().cause.starts_with("its guardian has had its orders for 15 s and has not answered"));
  CHECK(late.failure().told_by == Teller::launcher);
}

TEST_CASE("A node has ended when its link and what led there have") {
  RemoteNode link_first = working();
  CHECK_FALSE(link_first.link_closed(kBegin, 50s));
  CHECK(link_first.next_tick() == kBegin + 50s);
  CHECK(link_first.tick(kBegin + 50s) == Action::end_way);
  CHECK(link_first.process_ended(exited(0), kBegin + 50s));

  RemoteNode process_first = working();
  CHECK_FALSE(process_first.process_ended(exited(0), kBegin));
  // Somebody else holds its streams.
  CHECK(process_first.next_tick() == kBegin + 1s);
  CHECK(process_first.link_closed(kBegin, 50s));
  CHECK(process_first.conclude() == Action::lose);
  CHECK_FALSE(process_first.next_tick());
}

TEST_CASE("A way is sought to an agent that may live, and to no other") {
  RemoteNode cut_off = working();
  CHECK(end(cut_off, exited(255)) == Action::seek_way);
  CHECK_FALSE(cut_off.guardian_ended());
  cut_off.seek_again(kBegin);
  CHECK(cut_off.next_tick() == kBegin + 100ms);
  CHECK(cut_off.tick(kBegin + 100ms) == Action::end_way);
  CHECK(cut_off.conclude() == Action::seek_way);
  // The coordinator says that it is dead.
  cut_off.hold_for_dead({"n1 was silent", false}, false, kBegin);
  CHECK(cut_off.conclude() == Action::lose);

  RemoteNode client_killed = working();
  CHECK(end(client_killed, killed(9)) == Action::seek_way);

  // An agent whose guardian was killed has a report to send, whatever the coordinator says.
  RemoteNode orphaned = working();
  orphaned.hold_for_dead({"n1 was silent", false}, false, kBegin);
  CHECK(end(orphaned, exited(128 + 9)) == Action::seek_way);
  CHECK(orphaned.guardian_ended());

  RemoteNode ended = working();
  CHECK(end(ended, exited(1)) == Action::lose);

  RemoteNode without_agent = working();
  without_agent.notice(kAgentLost);
  CHECK(end(without_agent, exited(255)) == Action::lose);

  RemoteNode severed = working();
  severed.sever(kBegin, false);
  CHECK(severed.process_ended(killed(9), kBegin));
  CHECK(severed.conclude() == Action::lose);

  RemoteNode relayed_once = relaying();
  CHECK_FALSE(relayed_once.link_closed(kBegin, 50s));
  CHECK(relayed_once.conclude() == Action::lose);

  RemoteNode greeted = node_in(Phase::greeted);
  CHECK(greeted.process_ended(exited(255), kBegin));
  CHECK(greeted.conclude() == Action::fail_start);

  RemoteNode reported = working();
  reported.take(Event::report);
  CHECK(end(reported, exited(255)) == Action::finish);
}

TEST_CASE("When a relay breaks, the coordinator may be about to say why") {
  RemoteNode node = relaying();
  CHECK_FALSE(node.next_tick());
  CHECK_FALSE(node.link_closed(kBegin, 50s));
  CHECK(node.next_tick() == kBegin + 1s);
  // It has said it: no more is waited for.
  node.hold_for_dead({"n1 is gone", true}, false, kBegin + 10ms);
  CHECK(node.next_tick() == kBegin + 10ms);

  RemoteNode known = relaying();
  known.hold_for_dead({"n1 was silent", false}, true, kBegin);
  CHECK(known.link_closed(kBegin, 50s));

  RemoteNode reported = relaying();
  reported.take(Event::report);
  CHECK(reported.link_closed(kBegin, 50s));
}

TEST_CASE("A new way ends the wait for the old one, but not that for a node that is held for dead") {
  RemoteNode node = working();
  CHECK_FALSE(node.process_ended(exited(128 + 9), kBegin));
  node.hold_for_dead({"n1 was silent", false}, false, kBegin);
  CHECK(node.link_closed(kBegin, 50s));
  CHECK(node.conclude() == Action::seek_way);
  node.relay();
  CHECK(node.next_tick() == kBegin + 1s);
}

TEST_CASE("A node that is held for dead gets a last moment, and more if the job goes on") {
  RemoteNode node = working();
  node.hold_for_dead({"n1 was silent", true}, true, kBegin);
  CHECK(node.next_tick() == kBegin + 3s);
  node.hold_for_dead({"n1 was silent", true}, false, kBegin);
  CHECK(node.next_tick() == kBegin + 1s);
  node.hold_for_dead({"n1 was silent", true}, true, kBegin);
  CHECK(node.next_tick() == kBegin + 1s);
  CHECK(node.tick(kBegin + 1s) == Action::end_way);
  CHECK(node.process_ended(killed(9), kBegin));
  CHECK(node.conclude() == Action::lose);
  CHECK(node.failure() == HostFailure{"", "n1 was silent", "", false, false, Teller::coordinator, true});

  RemoteNode reported = node_in(Phase::reported);
  reported.hold_for_dead({"n1 was silent", false}, true, kBegin);
  CHECK_FALSE(reported.next_tick());

  RemoteNode severed = working();
  severed.sever(kBegin, false);
  severed.hold_for_dead({"n1 was silent", false}, false, kBegin);
  CHECK(severed.next_tick() == kBegin + 2s);
}

TEST_CASE("What the coordinator leaves behind has a moment to report") {
  RemoteNode node = working();
  node.coordinator_ended(kBegin);
  CHECK(node.next_tick() == kBegin + 5s);
  CHECK(end(node, exited(1)) == Action::lose);
  CHECK(node.failure().cause == "its agent did not answer any more; the connection to it was cut");

  RemoteNode limited = working();
  limited.limit(kBegin + 1s);
  limited.coordinator_ended(kBegin);
  CHECK(limited.next_tick() == kBegin + 1s);

  RemoteNode reported = node_in(Phase::reported);
  reported.coordinator_ended(kBegin);
  CHECK_FALSE(reported.next_tick());

  RemoteNode with_words = working();
  with_words.notice(kAgentLost);
  with_words.coordinator_ended(kBegin);
  CHECK(end(with_words, exited(1)) == Action::lose);
  CHECK(with_words.failure().cause == "the agent process of n1 was lost (killed by SIGKILL)");
}

TEST_CASE("A node that sent what no muster sends is cut off once") {
  RemoteNode node = working();
  node.hold_for_dead({"n1 was silent", false}, false, kBegin);
  CHECK(node.misbehave("a second hello", kBegin));
  CHECK_FALSE(node.misbehave("a third hello", kBegin));
  CHECK(node.severed());
  CHECK(node.tick(kBegin) == Action::end_way);
  CHECK(node.process_ended(exited(255), kBegin));
  CHECK(node.conclude() == Action::lose);
  CHECK(node.failure().cause == "it sent what no muster sends (a second hello)");
}

TEST_CASE("A node that we cut has to end soon, sooner in a hurry, and at once where nothing leads there") {
  RemoteNode node = working();
  node.sever(kBegin, false);
  CHECK(node.next_tick() == kBegin + 2s);
  node.sever(kBegin, true);
  CHECK(node.next_tick() == kBegin + 200ms);
  RemoteNode relayed = relaying();
  relayed.sever(kBegin, false);
  CHECK(relayed.next_tick() == kBegin);
}

TEST_CASE("A limit is shortened, never made") {
  RemoteNode node = node_in(Phase::reported);
  node.shorten(kBegin + 1s);
  CHECK_FALSE(node.next_tick());
  node.limit(kBegin + 5s);
  node.shorten(kBegin + 9s);
  CHECK(node.next_tick() == kBegin + 5s);
  node.shorten(kBegin + 1s);
  CHECK(node.next_tick() == kBegin + 1s);
}

TEST_CASE("A client that is stopped at two looks in a row stays stopped") {
  RemoteNode node = working();
  CHECK_FALSE(node.client_stopped(true));
  CHECK_FALSE(node.client_stopped(false));
  CHECK_FALSE(node.client_stopped(true));
  CHECK(node.client_stopped(true));
}

TEST_CASE("The loss of a node has the cause of the one who knows most") {
  RemoteNode plain = working();
  end(plain, exited(1));
  CHECK(plain.failure().cause == "the agent ended with exit code 1 without a report");
  CHECK(plain.failure().advice == "see whether the host is up and its log");

  RemoteNode signalled = working();
  end(signalled, exited(128 + 9));
  CHECK(signalled.failure().cause.starts_with("guardian or agent there was killed by SIGKILL"));

  RemoteNode client_killed = working();
  end(client_killed, killed(9));
  CHECK(client_killed.failure().cause == "what led there was killed by signal 9");

  RemoteNode broken = working();
  end(broken, exited(255));
  CHECK(broken.failure().cause == "agent and guardian there were killed, or the connection broke");
  broken.relay();
  broken.take(Event::carried);
  CHECK_FALSE(broken.link_closed(kBegin, 50s));
  CHECK(broken.conclude() == Action::lose);
  CHECK(broken.failure().cause == "the way to it through the coordinator was lost, too");

  RemoteNode told = working();
  told.notice({LinkMessage::Kind::notice, LinkMessage::in_words, "no such program"});
  told.hold_for_dead({"n1 was silent", false}, true, kBegin);
  end(told, exited(128 + 9));
  CHECK(told.failure().cause == "n1: no such program");
  CHECK(told.failure().told_by == Teller::node);

  // What the coordinator knows is less than what the exit code tells.
  RemoteNode dead = working();
  dead.hold_for_dead({"n1 was silent", true}, true, kBegin);
  end(dead, exited(128 + 9));
  CHECK(dead.failure().told_by == Teller::launcher);
  CHECK_FALSE(dead.failure().says_decision);
}

TEST_CASE("What was said just before the end is its cause, unless all went on") {
  RemoteNode node = working();
  node.said("muster: error: out of files", kBegin);
  end(node, exited(255));
  CHECK(node.failure().cause == "out of files");

  RemoteNode warned = working();
  warned.said("muster: warning: slow disk", kBegin);
  warned.said("muster: info: hello", kBegin);
  end(warned, exited(1));
  CHECK(warned.failure().cause == "the agent ended with exit code 1 without a report");

  RemoteNode long_ago = working();
  long_ago.said("Connection reset", kBegin);
  CHECK_FALSE(long_ago.process_ended(exited(1), kBegin + 2s));
  CHECK(long_ago.link_closed(kBegin, 50s));
  long_ago.conclude();
  CHECK(long_ago.failure().cause == "the agent ended with exit code 1 without a report");

  // It was said of the way that was replaced.
  RemoteNode relayed = working();
  relayed.said("Connection reset", kBegin);
  CHECK(end(relayed, exited(255)) == Action::seek_way);
  relayed.relay();
  CHECK_FALSE(relayed.link_closed(kBegin, 50s));
  relayed.conclude();
  CHECK(relayed.failure().cause == "agent and guardian there were killed, or the connection broke");
}
