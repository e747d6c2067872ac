// SPDX-License-Identifier: Apache-2.0
// A guardian of its own process group, whose store and agent are only sleepers.
#include "agent/process/guardian.hpp"

#include "catch.hpp"
#include "tests/support/pipe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <system_error>

namespace guardian_test {

using namespace muster::agent;
using muster::UniqueFd;
using muster::test::Pipe;

namespace {

constexpr int kLimitMs = 60'000;

/// Runs a guardian; what it says and its agent's pid come through pipes.
class Guarded {
 public:
  explicit Guarded(GuardianOptions options) {
    options.lifeline_fd = lifeline_.read.get();
    options.go_on_fd = go_on_.read.get();
    options.notice = [this](LinkMessage::Notice, const std::string& text) {
      const std::string line = text + "\n";
      (void)!::write(said_.write.get(), line.data(), line.size());
    };
    options.signals = SignalState::capture();
    guardian_ = ::fork();
    if (guardian_ < 0) throw std::system_error(errno, std::generic_category());
    if (guardian_ == 0) {
      lifeline_.write.reset();
      ::_exit(run_guardian(
          options, [this](int, int) { return sleep(store_started_); },
          [this](int, int) { return sleep(started_); }, [] {}));
    }
    lifeline_.read.reset();
    said_.write.reset();
    pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, guardian_, 0)));
    REQUIRE(::read(started_.read.get(), &agent_, sizeof agent_) == static_cast<ssize_t>(sizeof agent_));
    REQUIRE(::read(store_started_.read.get(), &store_, sizeof store_) == static_cast<ssize_t>(sizeof store_));
  }

  ~Guarded() {
    if (ended_) return;
    // One that slept on would keep our output open, and whoever waits for its end waiting.
    ::kill(store_, SIGKILL);
    ::kill(agent_, SIGKILL);
    ::kill(guardian_, SIGKILL);
    ::waitpid(guardian_, nullptr, 0);
  }

  void signal_agent(int signal) const { ::kill(agent_, signal); }

  void signal_store(int signal) const { ::kill(store_, signal); }

  int pidfd() const { return pidfd_.get(); }

  void cut() { lifeline_.write.reset(); }

  void say_go_on() const { REQUIRE(::write(go_on_.write.get(), "g", 1) == 1); }

  /// Whether it ends within this time.
  bool ends_within(int limit_ms) {
    pollfd end{pidfd_.get(), POLLIN, 0};
    if (::poll(&end, 1, limit_ms) != 1) return false;
    ::waitpid(guardian_, nullptr, 0);
    ended_ = true;
    return true;
  }

  /// Until it has said this, or ends.
  std::string said_until(const std::string& what) {
    char c = 0;
    while (said_text_.find(what) == std::string::npos && ::read(said_.read.get(), &c, 1) == 1)
      said_text_ += c;
    return said_text_;
  }

 private:
  static int sleep(const Pipe& started) {
    const pid_t own = ::getpid();
    (void)!::write(started.write.get(), &own, sizeof own);
    ::poll(nullptr, 0, kLimitMs);
    return 0;
  }

  Pipe lifeline_;
  Pipe go_on_;
  Pipe said_;
  Pipe started_;
  Pipe store_started_;
  UniqueFd pidfd_;
  std::string said_text_;
  pid_t guardian_ = -1;
  pid_t agent_ = -1;
  pid_t store_ = -1;
  bool ended_ = false;
};

GuardianOptions with_grace(std::chrono::milliseconds grace) {
  GuardianOptions options;
  options.shutdown_timeout = grace;
  return options;
}

}  // namespace

TEST_CASE("an agent that stays stopped is killed") {
  GuardianOptions options = with_grace(std::chrono::hours(1));
  options.stopped_at_most = std::chrono::milliseconds(300);
  Guarded node(options);
  node.signal_agent(SIGSTOP);
  REQUIRE(node.ends_within(kLimitMs / 2));
  CHECK(contains(node.said_until("stayed stopped"), "stayed stopped"));
}

TEST_CASE("an agent that goes on in time is not killed") {
  // On a busy machine it may not go on in time.
  for (const int limit_ms : {2500, 25'000}) {
    GuardianOptions options = with_grace(std::chrono::hours(1));
    options.stopped_at_most = std::chrono::milliseconds(limit_ms);
    Guarded node(options);
    node.signal_agent(SIGSTOP);
    node.said_until("was stopped");
    node.signal_agent(SIGCONT);
    const std::string said = node.said_until("goes on");
    if (limit_ms < 25'000 && !contains(said, "goes on")) continue;
    CHECK(contains(said, "goes on"));
    CHECK_FALSE(node.ends_within(limit_ms + 500));
    return;
  }
}

TEST_CASE("a store process that stays stopped is killed, and the agent is not") {
  GuardianOptions options = with_grace(std::chrono::hours(1));
  options.store_stopped_at_most = std::chrono::milliseconds(300);
  Guarded node(options);
  node.signal_store(SIGSTOP);
  const std::string said = node.said_until("so its guardian killed it)");
  CHECK(said.find("the store process was stopped (SIGSTOP)") != std::string::npos);
  CHECK(said.find("the store process was lost (it stayed stopped, so its guardian killed it)") !=
        std::string::npos);
  CHECK_FALSE(node.ends_within(500));
}

TEST_CASE("without other nodes both may stay stopped until the guardian is told to let them go on") {
  Guarded node(with_grace(std::chrono::hours(1)));
  node.signal_store(SIGSTOP);
  node.signal_agent(SIGSTOP);
  CHECK(node.said_until("what workers ask of it waits until 'kill -CONT")
            .find("the store process was stopped") != std::string::npos);
  CHECK(node.said_until("the output and the ends of workers wait").find("the agent process was stopped") !=
        std::string::npos);
  CHECK_FALSE(node.ends_within(500));
  continue_guardian(node.pidfd());
  CHECK(node.said_until("the store process goes on").find("the store process goes on") != std::string::npos);
  CHECK(node.said_until("the agent process goes on").find("the agent process goes on") != std::string::npos);
}

TEST_CASE("an agent that is stopped has no grace when the launcher is gone") {
  Guarded node(with_grace(std::chrono::hours(1)));
  node.signal_agent(SIGSTOP);
  node.said_until("was stopped");
  CHECK_FALSE(node.ends_within(200));
  node.cut();
  CHECK(node.ends_within(kLimitMs / 2));
}

TEST_CASE("the end of a link that the agent has left means nothing") {
  // Without a grace, an agent is killed 5 s after the end of its link.
  Guarded moved(with_grace({}));
  Guarded cut(with_grace({}));
  moved.say_go_on();
  cut.cut();
  ::poll(nullptr, 0, 100);  // the byte is there before the end is
  moved.cut();
  CHECK(cut.ends_within(kLimitMs / 2));
  CHECK_FALSE(moved.ends_within(1000));
}

}  // namespace guardian_test
