// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol/message.hpp"

#include "catch.hpp"
#include "rendezvous/protocol/limits.hpp"

using namespace muster::rendezvous;

namespace {

std::vector<Message> one_of_each() {
  Status status;
  status.round = 1;
  status.joined = 2;
  status.wanted = 3;
  status.missing = {"n2"};
  status.text = "2 of 3 nodes joined; waiting for 1 more: n2";
  RoundResult result;
  result.round = 4;
  result.node_rank = 1;
  result.nodes = 2;
  result.world_size = 16;
  result.first_rank = 8;
  result.store_host = "10.0.0.1";
  result.store_port = 29500;
  result.restarts = 2;
  Hello hello{1, 7, "job", "n0", 0xffffffffffffffffULL};
  hello.role = Role::launcher;
  hello.software = "0.5.0";
  hello.host = "h0";
  hello.nonce = "5eed";
  hello.session = 7;
  hello.received = 12;
  hello.limits = JobLimits{2, 4, 3, RestartRule::progress, Milliseconds(1500), Milliseconds(0), true};
  hello.limits->hang_timeout = Milliseconds(5000);
  hello.limits->on_hang = HangAction::restart;
  RankHealth health;
  health.round = 2;
  health.rank = 3;
  health.activity = Activity::waits;
  health.wait = WaitKind::communication;
  health.stirs = true;
  health.place = {"/home/u/train.py", 41, "load"};
  health.operation = "all_reduce";
  health.group = "dp";
  health.sequence = 12;
  health.key = "epcoh";
  health.nearest = "epoch";
  health.held_in = "nfs_wait_bit_killable";
  health.still = Milliseconds(61'000);
  health.lasted = Milliseconds(60'000);
  Join join{"host", "10.0.0.2", 8, 3};
  join.node_rank = 1;
  join.settings = {{"max_restarts", "3"}, {"nnodes", "2"}};
  join.addresses = {"10.1.0.2", "fd00::2"};
  return {hello,
          HelloOk{2, "job", "5eed", 7, 3, "0.5.0"},
          join,
          status,
          result,
          FailRound{2, "rank 3: killed by SIGSEGV", 139, "h1", 3, 11, "Fatal Python error", true},
          LeaveRound{2, RoundOutcome::failed, 3, "exited with 3"},
          Left{2, NextStep::join, 1, Milliseconds(2000), "restarting all workers in 2 s (restart 1 of 5)"},
          RoundEnd{2, RoundEndCause::node_lost, "n1", "node n1 is lost", 125, "h1", 3, true, 1,
                   Milliseconds(4000), "restarting all workers in 4 s (restart 1 of 5)", true},
          Heartbeat{12},
          JobClosed{"interrupted", false, 130, "n1", "h1", 3},
          ErrorReply{Errc::environment, "join", "port 29500 is in use"},
          NodeState{"n1", "killed", true, true, true},
          Vouch{5, "10.0.0.2", 40000, "10.0.0.1", 29500},
          Vouched{5, true, ""},
          LauncherState{true, false, Milliseconds(2500)},
          ChannelOpen{ChannelKind::link, "n1", 40001, 40002},
          DaemonStatus{"0.5.0", 3'000'000'000, 1, 12},
          JobStatus{"job", 77, true, 2, 3, 1, "over: round 2 ended with success"},
          health,
          KeyWait{2, "10.0.0.2", 40000, "10.0.0.1", 29500, "epcoh", "epoch"},
          JobNotice{2, "rank 3 on n1 is hung", HangLevel::is_hung, {3}, Milliseconds(61'000)},
          RankPace{2, 3, 10, 120'000, 80'000, true},
          HostNews{2, "the file system /scratch is full"},
          SlowRanks{2, "rank 3 on n1 is slow", true},
          RankFlight{2,
                     {3,
                      {{"default_pg",
                        "0",
                        {0, 3},
                        41,
                        {{41, "all_reduce", "[[4, 8]]", "[[4, 8]]", "[Float]", "started"}}},
                       {"empty", "1", {}, 0, {}, true}}}}};
}

std::string complaint(const std::string& text, Errc code = Errc::mend) {
  try {
    message_from_json(text, 3);
  } catch (const CoordinatorError& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("Every message survives the way through JSON") {
  const std::vector<Message> messages = one_of_each();
  REQUIRE(messages.size() == std::variant_size_v<Message>);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    INFO(to_json(messages[i]));
    CHECK(messages[i].index() == i);
    CHECK(message_from_json(to_json(messages[i])) == messages[i]);
  }
}

TEST_CASE("Unknown fields are ignored") {
  CHECK(message_from_json(R"({"type":"left","round":3,"colour":"blue","deep":[{"a":1}]})") ==
        Message(Left{3}));
}

TEST_CASE("Fields that version 1 did not have may be absent") {
  Hello hello{1, 1, "job", "n0", 3};
  CHECK(
      message_from_json(
          R"({"type":"hello","version_min":1,"version_max":1,"run_id":"job","node":"n0","incarnation":3})") ==
      Message(hello));
  CHECK(message_from_json(R"({"type":"join","host":"h","address":"a","workers":1,"round":0})") ==
        Message(Join{"h", "a", 1, 0}));
  CHECK(message_from_json(R"({"type":"fail_round","round":1,"text":"x"})") == Message(FailRound{1, "x"}));
  CHECK(message_from_json(R"({"type":"leave_round","round":1,"outcome":"failed"})") ==
        Message(LeaveRound{1, RoundOutcome::failed}));
  CHECK(message_from_json(R"({"type":"heartbeat","sequence":4})") == Message(Heartbeat{4}));
  CHECK(message_from_json(R"({"type":"launcher_state"})") == Message(LauncherState{}));
}

TEST_CASE("What a node tells of a rank is bounded") {
  RankHealth health;
  health.place.file = std::string(5000, 'x');
  health.key = std::string(5000, 'k');
  const auto read = std::get<RankHealth>(message_from_json(to_json(health)));
  CHECK(read.place.file.size() == kMaxHealthTextBytes);
  CHECK(read.key.size() == kMaxHealthTextBytes);
  const auto refused = [](const std::string& more) {
    return complaint(R"({"type":"rank_health","round":0,"rank":0,)" + more + "}");
  };
  CHECK(contains(refused(R"("activity":"flies")"), "'activity' has an unknown value"));
  CHECK(contains(refused(R"("activity":"waits","wait":"moon")"), "'wait' has an unknown value"));
  CHECK(contains(refused(R"("activity":"waits","line":-1)"), "'line' is outside"));
  CHECK(
      contains(refused(R"("activity":"waits","key":")" + std::string(5000, 'k') + "\""), "'key' is longer"));
  CHECK(contains(complaint(R"({"type":"rank_health","round":0,"rank":-1,"activity":"busy"})"),
                 "'rank' is outside"));
}

TEST_CASE("Settings and addresses are bounded like all names") {
  const auto join = [](const std::string& more) {
    return complaint(R"({"type":"join","host":"h","address":"a","workers":1,"round":0,)" + more + "}");
  };
  CHECK(contains(join(R"("settings":[1])"), "'settings' is not an object"));
  CHECK(contains(join(R"("settings":{"a":1})"), "'settings' is not a text"));
  CHECK(contains(join(R"("settings":{"a":"\u001b"})"), "'settings' holds a control character"));
  CHECK(contains(join(R"("node_rank":-2)"), "'node_rank' is outside"));
  std::string many = R"("settings":{"a":"b")";
  for (std::size_t i = 0; i < kMaxSettings; ++i) many += ",\"" + std::to_string(i) + R"(":"c")";
  CHECK(contains(join(many + "}"), "at most 64"));
  CHECK(contains(join(R"("addresses":["a\n"])"), "'addresses' holds a control character"));
}

TEST_CASE("The limits of a job in a hello are bounded, and named by where they stand") {
  const auto hello = [](const std::string& limits) {
    return complaint(
        R"({"type":"hello","version_min":2,"version_max":2,"run_id":"j","node":"n","incarnation":3,"limits":)" +
        limits + "}");
  };
  CHECK(contains(hello("[]"), "'hello': field 'limits' is not an object"));
  CHECK(contains(hello("{}"), "'hello.limits': field 'min_nodes' is missing"));
  CHECK(contains(hello(R"({"min_nodes":0})"), "'min_nodes' is outside"));
  CHECK(contains(hello(R"({"min_nodes":3,"max_nodes":2})"), "'max_nodes' is outside 3.."));
  const std::string nodes = R"({"min_nodes":1,"max_nodes":2,"max_restarts":)";
  CHECK(contains(hello(nodes + "-1}"), "'max_restarts' is outside"));
  CHECK(contains(hello(nodes + R"(1,"restart_policy":"never"})"), "'restart_policy'"));
  CHECK(
      contains(hello(nodes + R"(1,"restart_policy":"torchrun","join_timeout_ms":-1})"), "'join_timeout_ms'"));
  CHECK(hello(nodes + R"(1,"restart_policy":"torchrun"})") == "accepted");
}

TEST_CASE("What is sent again after a resumption is numbered, the rest is not") {
  int without = 0;
  for (const Message& message : one_of_each()) without += !is_numbered(message);
  CHECK(without == 3);
  CHECK_FALSE(is_numbered(Heartbeat{1}));
  CHECK(is_numbered(Left{1}));
}

TEST_CASE("An unknown type is an error that says both versions") {
  const std::string text = complaint(R"({"type":"teleport"})", Errc::upgrade);
  CHECK(contains(text, "'teleport'"));
  CHECK(contains(text, "speaks protocol 4..4"));
  CHECK(contains(text, "the peer's version is 3"));
}

TEST_CASE("A bad message is refused with the name of its field") {
  CHECK(contains(complaint("GET / HTTP/1.1"), "not JSON"));
  CHECK(contains(complaint("[]"), "not a JSON object"));
  CHECK(contains(complaint("{}"), "'type' is missing"));
  CHECK(contains(complaint(R"({"type":7})"), "'type' is not a text"));
  CHECK(contains(complaint(R"({"type":"left"})"), "'round' is missing"));
  CHECK(contains(complaint(R"({"type":"left","round":"3"})"), "'round' is not a whole number"));
  CHECK(contains(complaint(R"({"type":"left","round":1.5})"), "'round' is not a whole number"));
  CHECK(contains(complaint(R"({"type":"left","round":-1})"), "outside 0.."));
  CHECK(contains(complaint(R"({"type":"left","round":2147483648})"), "outside 0..2147483647"));
  CHECK(contains(complaint(R"({"type":"left","round":18446744073709551615})"), "outside"));
  CHECK(contains(complaint(R"({"type":"left","round":99999999999999999999})"), "not a whole number"));
  CHECK(contains(complaint(R"({"type":"leave_round","round":1,"outcome":"maybe"})"),
                 "'outcome' has an unknown"));
  CHECK(contains(complaint(R"({"type":"heartbeat","sequence":-1})"), "'sequence'"));
  CHECK(
      contains(complaint(R"({"type":"fail_round","round":1,"text":"","exit_code":256})"), "outside 0..255"));
  CHECK(contains(complaint(R"({"type":"fail_round","round":1,"text":"","signal":128})"), "outside 0..127"));
  CHECK(contains(complaint(R"({"type":"left","round":1,"delay_ms":-1})"), "'delay_ms' is outside 0.."));
  CHECK(contains(complaint(R"({"type":"vouched","id":1})"), "'allowed' is missing"));
  CHECK(
      contains(complaint(R"({"type":"vouched","id":1,"allowed":1})"), "'allowed' is neither true nor false"));
  CHECK(
      contains(complaint(R"({"type":"join","host":"h","address":"a","workers":0,"round":0})"), "'workers'"));
  CHECK(contains(complaint(R"({"type":"join","host":"h\u001b","address":"a","workers":1,"round":0})"),
                 "'host' holds a control character"));
}

TEST_CASE("Numbers of a result must fit together") {
  const auto result = [](int node_rank, int nodes, int world, int first) {
    return R"({"type":"round_result","round":0,"store_host":"h","store_port":1,"node_rank":)" +
           std::to_string(node_rank) + R"(,"nodes":)" + std::to_string(nodes) + R"(,"world_size":)" +
           std::to_string(world) + R"(,"first_rank":)" + std::to_string(first) + "}";
  };
  CHECK_NOTHROW(message_from_json(result(1, 2, 4, 3)));
  CHECK(contains(complaint(result(2, 2, 4, 3)), "node_rank"));
  CHECK(contains(complaint(result(1, 2, 1, 0)), "world_size"));
  CHECK(contains(complaint(result(1, 2, 4, 4)), "first_rank"));
  CHECK(contains(complaint(result(1, 2, 4, 0)), "first_rank"));
}

TEST_CASE("Names are bounded, long texts are cut at a character") {
  Hello hello;
  hello.run_id = "job";
  hello.node = std::string(kMaxNameBytes, 'n');
  CHECK_NOTHROW(message_from_json(to_json(hello)));
  hello.node += 'n';
  CHECK(contains(complaint(to_json(hello)), "'node' is longer than 255 bytes"));
  hello.node.clear();
  CHECK(contains(complaint(to_json(hello)), "'node' is empty"));
  const auto sent = [](const std::string& reason) {
    return std::get<JobClosed>(message_from_json(to_json(JobClosed{reason}))).reason;
  };
  CHECK(sent(std::string(kMaxTextBytes + 9, 'y')).size() == kMaxTextBytes);
  std::string umlauts = "x";
  while (umlauts.size() < kMaxTextBytes + 2) umlauts += "\xc3\xa4";
  CHECK(sent(umlauts).size() == kMaxTextBytes - 1);
  FailRound failure;
  failure.error_line = std::string(kMaxErrorLineBytes + 9, 'e');
  CHECK(std::get<FailRound>(message_from_json(to_json(failure))).error_line.size() == kMaxErrorLineBytes);
  CHECK(contains(complaint(R"({"type":"fail_round","round":1,"text":"","error_line":")" +
                           std::string(3 * kMaxErrorLineBytes + 1, 'e') + "\"}"),
                 "'error_line' is longer than 1536 bytes"));
}

TEST_CASE("Text that is not UTF-8 still makes JSON") {
  CHECK(contains(to_json(JobClosed{"bad \xff byte"}), "bad \xef\xbf\xbd byte"));
}

TEST_CASE("Small text cannot become a large tree") {
  CHECK(contains(
      complaint(R"({"type":"left","round":1,"x":)" + std::string(20, '[') + std::string(20, ']') + "}"),
      "nested"));
  std::string many = R"({"type":"left","round":1,"x":[0)";
  for (std::size_t i = 0; i < kMaxJsonValues; ++i) many += ",0";
  CHECK(contains(complaint(many + "]}"), "too many"));
}

TEST_CASE("Error codes have names in both directions") {
  for (const Errc code : {Errc::again, Errc::rejoin, Errc::mend, Errc::upgrade, Errc::job_over, Errc::lost,
                          Errc::deadline, Errc::environment})
    CHECK(errc_from(to_string(code)) == code);
  CHECK_FALSE(errc_from("oops").has_value());
}

TEST_CASE("A pace is of at least one step, and what is told of a host is bounded") {
  CHECK(contains(complaint(R"({"type":"rank_pace","round":0,"rank":0,"steps":0,"step_us":1,"own_us":1})"),
                 "'steps' is outside"));
  CHECK(contains(complaint(R"({"type":"rank_pace","round":0,"rank":0,"steps":1,"step_us":-1,"own_us":1})"),
                 "'step_us' is not a whole number"));
  const auto read = std::get<HostNews>(message_from_json(to_json(HostNews{0, std::string(50'000, 'x')})));
  CHECK(read.text.size() == kMaxHostNewsBytes);
}

TEST_CASE("A flight record has bounds on its groups, calls and members") {
  const std::string begin = R"({"type":"rank_flight","round":0,"rank":1,"groups":)";
  const std::string group = R"({"name":"g","id":"0","ranks":[0],"last":1,"calls":[]})";
  const auto many = [](const std::string& one, std::size_t count) {
    std::string all = "[" + one;
    for (std::size_t i = 1; i < count; ++i) all += "," + one;
    return all + "]";
  };
  CHECK(std::get<RankFlight>(message_from_json(begin + many(group, kFlightGroupsMax) + "}"))
            .record.groups.size() == kFlightGroupsMax);
  CHECK(contains(complaint(begin + many(group, kFlightGroupsMax + 1) + "}"),
                 "field 'groups' is not a list of at"));
  CHECK(contains(complaint(begin + "[1]}"), "field 'groups' has what is no object"));
  CHECK(contains(complaint(begin + R"([{"name":"g","id":"0","last":1,"ranks":)" +
                           many("0", kFlightMembersMax + 1) + "}]}"),
                 "'rank_flight.groups': field 'ranks' is not a list of at most"));
  CHECK(contains(complaint(begin + R"([{"name":"g","id":"0","last":-1}]})"), "field 'last'"));
  CHECK(contains(complaint(begin + R"([{"name":"g","id":"0","last":1,"calls":[{"sequence":1}]}]})"),
                 "'rank_flight.groups.calls': field 'name' is missing"));
}
