// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/daemon/job_directory.hpp"

#include "rendezvous/wire/frame.hpp"
#include "tests/integration/control/control_fixture.hpp"
#include "tests/support/catch.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <thread>

namespace job_directory_test {

using namespace muster;
using namespace muster::rendezvous;
using namespace muster::rendezvous::test;

namespace {

JobLimits two_nodes() {
  JobLimits limits;
  limits.min_nodes = limits.max_nodes = 2;
  return limits;
}

/// A directory without a port: each connection comes with the identity that its key would have proved.
struct Directory {
  explicit Directory(std::string refusal = "", Milliseconds ends_within = kJobEndsWithin)
      : jobs(context.get_executor(), options(refusal, ends_within), {}, [] { return 5; }) {}

  static HostingOptions options(const std::string& refusal, Milliseconds ends_within) {
    HostingOptions made;
    made.address = resolve("127.0.0.1", 29400).front();
    made.version = "1.2.3";
    made.refusal = refusal;
    made.ends_within = ends_within;
    return made;
  }

  /// Our end of a connection whose other end the directory has.
  int connection(const std::string& job, const std::string& name) {
    const auto [ours, theirs] = socket_pair();
    PeerPlace place;
    place.identity.emplace();
    place.identity->job = job;
    place.identity->node = name;
    place.address = resolve("127.0.0.1", 40000).front();
    jobs.add(adopt_socket(context.get_executor(), theirs), place);
    return ours;
  }

  /// `key_of`: the job of the key, if it is not that of the hello.
  std::unique_ptr<Node> node(const std::string& job, const std::string& name,
                             std::optional<JobLimits> limits = two_nodes(), const char* key_of = nullptr) {
    const int ours = connection(key_of == nullptr ? job : key_of, name);
    auto made = std::make_unique<Node>();
    ClientOptions client;
    client.run_id = job;
    client.node = client.host = name;
    client.limits = limits;
    made->client = std::make_unique<CoordinatorClient>(context.get_executor(), ours, client, made->events());
    return made;
  }

  /// Both nodes of a job in its first round.
  std::vector<std::unique_ptr<Node>> running(const std::string& job, std::optional<RoundResult>& first) {
    std::vector<std::unique_ptr<Node>> nodes;
    nodes.push_back(node(job, "n0"));
    nodes.push_back(node(job, "n1"));
    const auto one = spawn_on(context, nodes[0]->client->join(join_request(1), in(20s)));
    const auto other = spawn_on(context, nodes[1]->client->join(join_request(1), in(20s)));
    run_until([&] { return one->done && other->done; });
    REQUIRE(one->error == "");
    REQUIRE(other->error == "");
    first = *one->value;
    return nodes;
  }

  void finish(const std::vector<std::unique_ptr<Node>>& nodes) {
    for (const auto& node : nodes) {
      const auto left =
          spawn_on(context, node->client->leave_round(leaving(0, RoundOutcome::succeeded), in(20s)));
      run_until([&] { return left->done; });
    }
    run_until([&] { return !nodes[0]->closings.empty() && !nodes[1]->closings.empty(); });
  }

  std::string refusal_of(const std::unique_ptr<Node>& node) {
    run_until([&] { return !node->losses.empty(); });
    return node->losses.front();
  }

  std::optional<JobStatus> status(const std::string& job) const {
    for (const JobStatus& status : jobs.status())
      if (status.run_id == job) return status;
    return std::nullopt;
  }

  void run_until(const std::function<bool()>& done) { muster::test::run_until(context, done); }

  asio::io_context context{1};
  JobDirectory jobs;
};

Hello hello_of(const std::string& job, const std::string& name) {
  Hello hello;
  hello.run_id = job;
  hello.node = name;
  hello.incarnation = 7;
  hello.limits = two_nodes();
  return hello;
}

void say(const UniqueFd& fd, const Hello& hello) {
  const std::string frame = encode_frame(to_json(hello));
  REQUIRE(::send(fd.get(), frame.data(), frame.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(frame.size()));
}

/// What has come by now.
std::string received(const UniqueFd& fd) {
  std::string bytes(4096, '\0');
  const ssize_t count = ::recv(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

/// Job A has one node, n0, whose connection was reset.
void make_ghost(Directory& directory) {
  UniqueFd killed(directory.connection("A", "n0"));
  say(killed, hello_of("A", "n0"));
  directory.run_until([&] { return directory.status("A").has_value(); });
  CHECK(directory.status("A")->nodes == 1);
  // With the answer unread: as the kernel of a process that is killed does it.
  pollfd answered{killed.get(), POLLIN, 0};
  directory.run_until([&] { return ::poll(&answered, 1, 0) == 1; });
  killed.reset();
  directory.run_until([&] {
    const auto status = directory.status("A");
    return !status || status->nodes == 0;
  });
  REQUIRE(directory.status("A").has_value());
}

}  // namespace

TEST_CASE("two jobs under two names have stores of their own") {
  Directory directory;
  std::optional<RoundResult> first;
  std::optional<RoundResult> second;
  const auto a = directory.running("A", first);
  const auto b = directory.running("B", second);
  CHECK(first->store_host == "127.0.0.1");
  CHECK(first->store_port != second->store_port);
  CHECK(first->store_port != 29400);
  CHECK(directory.status("A")->text == "round 0 runs on 2 nodes: testhost, testhost");
  CHECK(directory.status("B")->nodes == 2);
  directory.finish(a);
  CHECK(directory.status("A")->over);
  CHECK_FALSE(directory.status("B")->over);
}

TEST_CASE("a name serves again after its job has ended, and is listed once") {
  Directory directory;
  for (int run = 0; run < 3; ++run) {
    std::optional<RoundResult> place;
    const auto nodes = directory.running("A", place);
    CHECK(place->round == 0);
    directory.finish(nodes);
    CHECK(directory.jobs.status().size() == 1);
  }
  directory.run_until([&] { return directory.jobs.deserted(); });
  CHECK(directory.status("A")->text == "over: round 0 ended with success");
}

TEST_CASE("a job that nobody is in any more and that never ran is forgotten") {
  Directory directory;
  auto node = directory.node("A", "n0");
  directory.run_until([&] { return directory.status("A").has_value(); });
  node.reset();
  directory.run_until([&] { return directory.jobs.status().empty(); });
}

TEST_CASE("nodes whose connections were all reset make room for a new run, and are not counted") {
  Directory directory;
  make_ghost(directory);
  JobLimits other = two_nodes();
  other.max_restarts = 3;
  // Over the network a node says nothing more before it is answered.
  Hello hello = hello_of("A", "n0");
  hello.incarnation = 8;
  hello.limits = other;
  const UniqueFd again(directory.connection("A", "n0"));
  say(again, hello);
  std::string answer;
  directory.run_until([&] { return contains(answer += received(again), "hello_ok"); });
  CHECK(directory.status("A")->nodes == 1);
  CHECK(directory.jobs.status().size() == 1);
}

TEST_CASE("a hello that waited for nodes is taken in the turn in which they are given up") {
  Directory directory;
  make_ghost(directory);
  const TimePoint reset_before = std::chrono::steady_clock::now();
  JobLimits other = two_nodes();
  other.max_restarts = 3;
  Hello hello = hello_of("A", "n0");
  hello.incarnation = 8;
  hello.limits = other;
  const UniqueFd again(directory.connection("A", "n0"));
  say(again, hello);
  // The loop is held up from shortly before the old node is given up until after the next look.
  const TimePoint held_from = reset_before + kDeadAfter - 20ms;
  directory.run_until([&] { return std::chrono::steady_clock::now() >= held_from; });
  std::this_thread::sleep_for(200ms);
  pollfd answered{again.get(), POLLIN, 0};
  directory.run_until([&] { return ::poll(&answered, 1, 0) == 1; });
  const std::string answer = received(again);
  INFO(answer);
  CHECK(contains(answer, "hello_ok"));
}

TEST_CASE("a node whose connection was reset may come back, while others wait for it") {
  Directory directory;
  make_ghost(directory);
  JobLimits other = two_nodes();
  other.max_restarts = 3;
  Hello hello = hello_of("A", "n1");
  hello.limits = other;
  const UniqueFd waiting(directory.connection("A", "n1"));
  say(waiting, hello);
  const TimePoint back_at = in(1s);
  directory.run_until([&] { return std::chrono::steady_clock::now() >= back_at; });
  const UniqueFd back(directory.connection("A", "n0"));
  say(back, hello_of("A", "n0"));
  std::string answer;
  directory.run_until([&] { return contains(answer += received(waiting), "give the same on every node"); });
  CHECK(contains(answer, "n1 has --max-restarts=3, node n0"));
  CHECK(directory.status("A")->nodes == 1);
}

TEST_CASE("a node that has gone while it waited begins no run, and few wait with one key") {
  Directory directory;
  make_ghost(directory);
  std::vector<UniqueFd> waiting;
  for (int i = 0; i < 5; ++i) {
    waiting.emplace_back(directory.connection("A", "n1"));
    say(waiting.back(), hello_of("A", "n1"));
  }
  pollfd first{waiting.front().get(), POLLIN, 0};
  directory.run_until([&] { return ::poll(&first, 1, 0) == 1; });
  CHECK(directory.status("A").has_value());
  CHECK(received(waiting.front()).empty());
  waiting.clear();
  directory.run_until([&] { return directory.jobs.status().empty(); });
  const TimePoint later = in(500ms);
  directory.run_until([&] { return std::chrono::steady_clock::now() >= later; });
  CHECK(directory.jobs.status().empty());
}

TEST_CASE("a node is refused that has other limits, another's key, or no name for its job") {
  Directory directory;
  std::optional<RoundResult> place;
  const auto nodes = directory.running("A", place);
  JobLimits other = two_nodes();
  other.max_restarts = 4;
  CHECK(contains(directory.refusal_of(directory.node("A", "n2", other)), "n2 has --max-restarts=4, node n0"));
  CHECK(contains(directory.refusal_of(directory.node("A", "n3", std::nullopt)), "install the same muster"));
  CHECK(contains(directory.refusal_of(directory.node("A", "n4", two_nodes(), "B")), "v1/agent/B/n4/0"));
  CHECK(contains(directory.refusal_of(directory.node("", "n5")), "--rdzv-id"));
  CHECK(directory.jobs.status().size() == 1);
}

TEST_CASE("a hello that is refused makes no job, and wipes none that is over") {
  Directory directory;
  std::optional<RoundResult> place;
  const auto nodes = directory.running("A", place);
  directory.finish(nodes);
  Hello old = hello_of("A", "n2");
  old.version_min = old.version_max = kProtocolVersionMin - 1;
  const std::vector<std::pair<Hello, std::string>> refused = {
      {hello_of("A", "n3"), "the key is that of v1/agent/A/n2/0, but the hello is of node n3"},
      {old, "node n2 speaks control protocol 3..3, this daemon 4..4"}};
  for (auto [hello, words] : refused) {
    for (const char* const job : {"A", "B"}) {
      INFO(job << " " << words);
      hello.run_id = job;
      const UniqueFd peer(directory.connection(job, "n2"));
      say(peer, hello);
      std::string answer;
      directory.run_until([&] { return !(answer += received(peer)).empty(); });
      if (hello.run_id == "A") CHECK(contains(answer, words));
      CHECK(directory.jobs.status().size() == 1);
      REQUIRE(directory.status("A").has_value());
      CHECK(directory.status("A")->text == "over: round 0 ended with success");
    }
  }
}

TEST_CASE("a job that is over is forgotten although its nodes stay") {
  Directory directory("", 1s);
  std::optional<RoundResult> place;
  const auto nodes = directory.running("A", place);
  directory.jobs.end("it is enough");
  directory.run_until([&] { return !nodes[0]->closings.empty() && !nodes[1]->closings.empty(); });
  CHECK_FALSE(directory.jobs.deserted());
  CHECK(directory.status("A")->over);
  directory.run_until([&] { return directory.jobs.status().empty(); });
}

TEST_CASE("all nodes hear that the daemon ends, and later ones, too") {
  Directory directory;
  std::optional<RoundResult> place;
  const auto running = directory.running("A", place);
  const auto waiting = directory.node("B", "n0");
  const auto joined = spawn_on(directory.context, waiting->client->join(join_request(1), in(20s)));
  directory.run_until([&] { return !waiting->statuses.empty(); });
  directory.jobs.end("the daemon was ended");
  directory.run_until(
      [&] { return joined->done && !running[0]->closings.empty() && !running[1]->closings.empty(); });
  CHECK(running[0]->closings.front() == "the daemon was ended");
  CHECK(joined->error == "the job is over: the daemon was ended");
  CHECK(contains(directory.refusal_of(directory.node("C", "n0")), "the daemon was ended"));
}

TEST_CASE("a daemon that hosts no jobs says why") {
  Directory directory("it listens on every address");
  CHECK(contains(directory.refusal_of(directory.node("A", "n0")), "it listens on every address"));
  CHECK(directory.jobs.status().empty());
}

}  // namespace job_directory_test
