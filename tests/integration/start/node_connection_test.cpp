// SPDX-License-Identifier: Apache-2.0
// Real processes that greet, talk, ask for a copy, or end without a word.
#include "launcher/start/node_connection.hpp"

#include "catch.hpp"
#include "launcher/core/launch_error.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/pipe.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>

using namespace muster::launcher;
using muster::UniqueFd;
namespace asio = boost::asio;

namespace {

/// What a connection to a shell script said, in the end.
struct Talk {
  explicit Talk(const std::string& script, const std::string& push_file = {},
                const std::vector<std::string>& environment = {}) {
    NodeConnection::Events events;
    events.greeted = [this](const std::string& there, LinkEnds link_ends) {
      version = there;
      greeted = true;
      ends.emplace(std::move(link_ends));
      if (on_greeting) on_greeting();
    };
    events.pushed = [this](std::uint64_t bytes, std::uint64_t of) {
      CHECK(bytes > pushed);
      pushed = bytes;
      to_push = of;
      ++pieces;
    };
    events.said = [this](const std::string& line) { lines.push_back(line); };
    events.ended = [this](const StartEnd& how) { end = how; };
    const auto signals = muster::agent::SignalState::capture();
    connection.emplace(context.get_executor(), spawn_client({"sh", "-c", script}, signals, environment),
                       push_file, std::move(events));
  }

  /// Until the end, or until `done` says so.
  template <typename Done>
  void run(Done done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done() && std::chrono::steady_clock::now() < deadline)
      context.run_one_for(std::chrono::milliseconds(100));
    REQUIRE(done());
  }

  void run_to_end() {
    run([this] { return end.has_value(); });
  }

  asio::io_context context{1};
  std::string version;
  std::optional<LinkEnds> ends;
  std::vector<std::string> lines;
  std::optional<StartEnd> end;
  bool greeted = false;
  std::uint64_t pushed = 0;
  std::uint64_t to_push = 0;
  int pieces = 0;
  std::function<void()> on_greeting;
  std::optional<NodeConnection> connection;
};

std::string read_all(const UniqueFd& fd) {
  ::fcntl(fd.get(), F_SETFL, 0);
  return muster::test::read_to_end(fd.get());
}

}  // namespace

TEST_CASE("The link begins after the greeting, whatever came before, and carries bytes both ways") {
  Talk talk("echo noise; echo early >&2; printf '\\nmuster-agent 3 9.8\\nfirst'; read x; echo \"got $x\"");
  talk.on_greeting = [&talk] {
    CHECK(::write(talk.ends->out.get(), "word\n", 5) == 5);
    talk.ends->out.reset();
  };
  talk.run_to_end();
  CHECK(talk.greeted);
  CHECK(talk.version == "9.8");
  CHECK(talk.ends->first_bytes + read_all(talk.ends->in) == "firstgot word\n");
  CHECK(talk.end->exit_code == 0);
  // Before the greeting it is kept, not shown.
  CHECK(talk.lines.empty());
}

TEST_CASE("An agent that speaks another protocol on the link is of another version") {
  Talk talk("printf '\\nmuster-agent 1 9.8\\n'; cat >/dev/null");
  talk.on_greeting = [&talk] { talk.ends->out.reset(); };
  talk.run_to_end();
  CHECK(talk.version == "9.8 (it speaks link protocol 1, we speak 3)");
}

TEST_CASE("What the other side says on stderr after the greeting comes in lines") {
  Talk talk("printf '\\nmuster-agent 3 1\\n'; read x; printf 'one\\r\\n\\ntwo' >&2; exit 3");
  talk.on_greeting = [&talk] { talk.ends->out.reset(); };
  talk.run_to_end();
  CHECK(talk.lines == std::vector<std::string>{"one", "two"});
  CHECK(talk.end->exit_code == 3);
}

TEST_CASE("An end without a greeting tells what was said") {
  Talk talk("echo hello; echo 'ssh: connect to host n port 22: Connection refused' >&2; exit 255");
  talk.run_to_end();
  CHECK_FALSE(talk.greeted);
  CHECK(talk.end->exit_code == 255);
  CHECK(talk.end->junk == "hello\n");
  CHECK(talk.end->errors == "ssh: connect to host n port 22: Connection refused\n");
}

TEST_CASE("Giving up kills what was started, with all that it started itself") {
  Talk talk("trap '' TERM; sleep 1000 & echo $! >&2; wait");
  talk.run([&talk] {
    // The script is under way when its child's number has come.
    talk.context.run_one_for(std::chrono::milliseconds(50));
    return true;
  });
  talk.connection->give_up();
  talk.run_to_end();
  CHECK(talk.end->timed_out);
  CHECK(talk.end->signal == SIGKILL);
  if (!talk.end->errors.empty()) {
    const pid_t child = static_cast<pid_t>(std::stol(talk.end->errors));
    CHECK((::kill(child, 0) != 0 || ::waitpid(child, nullptr, WNOHANG) != 0));
  }
}

TEST_CASE("A flood without a greeting is cut") {
  Talk talk("exec yes");
  talk.run_to_end();
  CHECK(talk.end->too_much_junk);
  CHECK(talk.end->junk.starts_with("y\ny\n"));
}

TEST_CASE("A host that wants a copy gets the bytes in pieces, which are counted, then greets") {
  char name[] = "/tmp/muster_push_XXXXXX";
  const UniqueFd file(::mkstemp(name));
  const std::string bytes(300'000, 'z');
  REQUIRE(::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  Talk talk(
      "printf '\\nmuster-push 1 300000\\n'; n=$(head -c 300000 | wc -c); "
      // Its end comes only after that of its stdin.
      "printf '\\nmuster-agent 3 %s\\n' $n; cat >/dev/null; exit 7",
      name);
  talk.on_greeting = [&talk] { talk.ends->out.reset(); };
  talk.run_to_end();
  ::unlink(name);
  CHECK(talk.greeted);
  CHECK(talk.version == "300000");
  CHECK(talk.pushed == bytes.size());
  CHECK(talk.to_push == bytes.size());
  CHECK(talk.pieces > 1);
  CHECK(talk.end->exit_code == 7);

  Talk refused("printf '\\nmuster-push 1 300000\\n'; exec sleep 1000");
  refused.run_to_end();
  CHECK_FALSE(refused.greeted);
}

TEST_CASE("A client is in a session of its own, reads no terminal, and inherits nothing") {
  const UniqueFd leak(::open("/dev/null", O_RDONLY));  // not close-on-exec
  Talk talk(
      "ls /proc/self/fd | wc -l >&2; [ \"$(ps -o sid= -p $$ | tr -d ' ')\" = $$ ] && echo own >&2; "
      "echo $SSH_ASKPASS_REQUIRE >&2");
  talk.run_to_end();
  CHECK(talk.end->errors == "4\nown\nnever\n");
}

TEST_CASE("A client's environment is ours, and what is missing there") {
  ::setenv("MUSTER_TEST_KEPT", "ours", 1);
  ::unsetenv("MUSTER_TEST_ADDED");
  Talk talk("printf '\\nmuster-agent 3 '$MUSTER_TEST_KEPT-$MUSTER_TEST_ADDED'\\n'", "",
            {"MUSTER_TEST_KEPT=no", "MUSTER_TEST_ADDED=default"});
  talk.run_to_end();
  CHECK(talk.version == "ours-default");
}

TEST_CASE("A client that is not there is named") {
  const auto signals = muster::agent::SignalState::capture();
  CHECK_THROWS_AS(spawn_client({muster::test::absent() + "/ssh", "n0"}, signals), LaunchError);
  CHECK_THROWS_AS(spawn_client({"no-such-ssh-client", "n0"}, signals), LaunchError);
  CHECK_THROWS_AS(spawn_client({"/etc/passwd", "n0"}, signals), LaunchError);
}

TEST_CASE("Dropping a connection ends its process") {
  pid_t pid = 0;
  {
    asio::io_context context(1);
    StartedProcess process = spawn_client({"sleep", "1000"}, muster::agent::SignalState::capture());
    pid = process.pid;
    const NodeConnection connection(context.get_executor(), std::move(process), {}, {});
  }
  for (int i = 0; i < 1000 && ::waitpid(pid, nullptr, WNOHANG) == 0; ++i) ::usleep(10'000);
  CHECK(::kill(pid, 0) != 0);
}
