// SPDX-License-Identifier: Apache-2.0
// A program that a test looks at while it runs.
#pragma once

#include "agent/process/child_process.hpp"
#include "tests/support/pipe.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster::agent::test {

/// Runs in a session of its own, and is killed with all that is in it when the test ends.
class Program {
 public:
  /// Starts it, and waits until it, or what it starts, has printed "ready".
  explicit Program(std::vector<std::string> arguments) {
    ChildSpec spec;
    spec.program = arguments.front();
    spec.arguments = std::move(arguments);
    spec.environment = {{"PATH", "/usr/bin:/bin"}, {"PYTHONDONTWRITEBYTECODE", "1"}};
    spec.signals = SignalState::capture();
    muster::test::Pipe pipe;
    spec.stdout_fd = pipe.write.get();
    child_ = start_child(spec);
    pipe.write.reset();
    std::string said;
    pollfd readable{pipe.read.get(), POLLIN, 0};
    while (said.find("ready") == std::string::npos) {
      char bytes[256];
      constexpr int kStartsWithinMs = 60'000;
      const ssize_t count =
          ::poll(&readable, 1, kStartsWithinMs) == 1 ? ::read(pipe.read.get(), bytes, sizeof bytes) : 0;
      if (count <= 0) throw std::runtime_error("the program did not start: " + said);
      said.append(bytes, static_cast<std::size_t>(count));
    }
    output_ = std::move(pipe.read);
  }

  ~Program() {
    ::kill(-child_.pid, SIGKILL);
    ::kill(child_.pid, SIGKILL);
    ::waitpid(child_.pid, nullptr, 0);
  }

  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return child_.pid; }

 private:
  Child child_;
  UniqueFd output_;
};

/// Asks again until the answer is `good`; 20 s in vain are a failure, and the last answer comes back.
template <typename Ask, typename Good>
auto ask_until(const Ask& ask, const Good& good) {
  const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  auto answer = ask();
  while (!good(answer) && std::chrono::steady_clock::now() < give_up_at) {
    ::poll(nullptr, 0, 1);
    answer = ask();
  }
  return answer;
}

}  // namespace muster::agent::test
