// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/daemon/embedded_daemon.hpp"

#include "catch.hpp"
#include "tests/integration/control/control_fixture.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace embedded_daemon_test {

using namespace muster::rendezvous;
using namespace muster::rendezvous::test;

namespace {

/// The daemon in a forked child, as the guardian runs it.
class Daemon {
 public:
  explicit Daemon(EmbeddedOptions options) {
    const auto [ours, theirs] = socket_pair();
    options.control_fd = theirs;
    options.run_id = "job";
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ours);
      ::_exit(run_embedded_daemon(options));
    }
    ::close(theirs);
    fd_ = ours;
  }

  ~Daemon() {
    if (fd_ >= 0) ::close(fd_);
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  int release() { return std::exchange(fd_, -1); }

  void write_all(const std::string& bytes) const {
    if (::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("short write to the daemon");
  }

  /// Everything that the daemon sends until it closes, or until a whole frame is there; at most 10 s.
  std::string read_frame() const {
    FrameDecoder decoder(kMaxControlFrameBytes);
    char byte = 0;
    pollfd wait{fd_, POLLIN, 0};
    while (!decoder.ready() && ::poll(&wait, 1, 10000) == 1 && ::recv(fd_, &byte, 1, 0) == 1)
      decoder.feed(std::string_view(&byte, 1));
    return decoder.ready() ? decoder.take() : "";
  }

  /// The daemon has closed the connection.
  bool at_end() const {
    char byte = 0;
    pollfd wait{fd_, POLLIN, 0};
    return ::poll(&wait, 1, 10000) == 1 && ::recv(fd_, &byte, 1, 0) == 0;
  }

  void half_close() const { ::shutdown(fd_, SHUT_WR); }

  /// Its exit code; the deadline is the test's.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
};

std::string hello_frame() {
  Hello hello;
  hello.run_id = "job";
  hello.node = "n0";
  hello.incarnation = 7;
  return encode_frame(to_json(hello));
}

}  // namespace

TEST_CASE("The daemon gives a round, takes it back, gives the next, and ends with the agent") {
  EmbeddedOptions of_job;
  of_job.limits.max_restarts = 1;
  Daemon daemon(of_job);
  Bench bench(JobLimits{});
  Node node;
  ClientOptions options;
  options.run_id = "job";
  options.node = "n0";
  node.client = std::make_unique<CoordinatorClient>(bench.context.get_executor(), daemon.release(), options,
                                                    node.events());
  const auto first = bench.spawn(node.client->join(join_request(2), in(20s)));
  bench.run_until([&] { return first->done; });
  REQUIRE(first->error.empty());
  CHECK(first->value->round == 0);
  CHECK(first->value->world_size == 2);
  CHECK(first->value->store_host == "127.0.0.1");
  CHECK(first->value->store_port > 0);
  const auto left = bench.spawn(node.client->leave_round(leaving(0, RoundOutcome::failed), in(20s)));
  bench.run_until([&] { return left->done; });
  CHECK(left->error.empty());
  CHECK(left->value->next == NextStep::join);
  const auto second = bench.spawn(node.client->join(join_request(2, 1), in(20s)));
  bench.run_until([&] { return second->done; });
  REQUIRE(second->error.empty());
  CHECK(second->value->round == 1);
  CHECK(second->value->restarts == 1);
  const auto last = bench.spawn(node.client->leave_round(leaving(1, RoundOutcome::failed), in(20s)));
  bench.run_until([&] { return last->done; });
  CHECK(last->value->next == NextStep::end);
  node.client.reset();
  bench.context.restart();
  bench.context.poll();
  CHECK(daemon.wait() == 0);
}

TEST_CASE("The end of the connection ends the daemon, also in the middle of a frame") {
  SECTION("before anything") {
    Daemon daemon(EmbeddedOptions{});
    ::close(daemon.release());
    CHECK(daemon.wait() == 0);
  }
  SECTION("after hello and half a frame") {
    Daemon daemon(EmbeddedOptions{});
    daemon.write_all(hello_frame());
    CHECK(contains(daemon.read_frame(), "hello_ok"));
    daemon.write_all(encode_frame(R"({"type":"heartbeat","sequence":1})").substr(0, 9));
    daemon.half_close();
    CHECK(daemon.at_end());
    CHECK(daemon.wait() == 0);
  }
}

TEST_CASE("A message that breaks the protocol is answered with the reason and ends the connection") {
  Daemon daemon(EmbeddedOptions{});
  std::string sent;
  std::string reason;
  SECTION("a stranger's frame over 16 KiB") {
    sent = std::string("\x00\x00\x40\x01", 4);
    reason = "16385 bytes is over the limit of 16384";
  }
  SECTION("a frame over 16 MiB after hello") {
    daemon.write_all(hello_frame());
    CHECK(contains(daemon.read_frame(), "hello_ok"));
    sent = std::string("\x01\x00\x00\x01", 4);
    reason = "over the limit of 16777216";
  }
  SECTION("an empty frame") {
    sent = std::string(4, '\0');
    reason = "0 bytes";
  }
  SECTION("no JSON") {
    sent = encode_frame("GET / HTTP/1.1");
    reason = "not JSON";
  }
  SECTION("an unknown type") {
    sent = encode_frame(R"({"type":"teleport"})");
    reason = "unknown control message 'teleport'";
  }
  SECTION("a join before hello") {
    sent = encode_frame(to_json(join_request(1)));
    reason = "first control message must be hello";
  }
  SECTION("a version from the future") {
    Hello hello;
    hello.version_min = hello.version_max = 99;
    hello.run_id = "job";
    hello.node = "n0";
    sent = encode_frame(to_json(hello));
    reason = "99..99";
  }
  daemon.write_all(sent);
  CHECK(contains(daemon.read_frame(), reason));
  CHECK(daemon.at_end());
  CHECK(daemon.wait() == 0);
}

TEST_CASE("A descriptor that is no socket is refused") {
  EmbeddedOptions options;
  options.control_fd = -1;
  CHECK(run_embedded_daemon(options) == 125);
}

}  // namespace embedded_daemon_test
