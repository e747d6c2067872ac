// SPDX-License-Identifier: Apache-2.0
// A process whose machine code a test looks at.
#pragma once

#include "agent/stacks/core/process_stacks.hpp"
#include "agent/stacks/libdw.hpp"
#include "catch.hpp"
#include "tests/support/skip.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

namespace muster::agent::test {

/// A name that a stack shows.
void sleeps_for_ever();

/// A child of ours that runs code of this program until it is killed.
class ForkedChild {
 public:
  explicit ForkedChild(const std::function<void()>& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::signal(SIGTERM, SIG_DFL);  // Catch2 has taken it
    work();
    ::_exit(0);
  }

  ~ForkedChild() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

inline bool no_libdw() {
  std::string error;
  if (load_libdw(error) != nullptr) return false;
  CHECK(error.find("libdw1") != std::string::npos);
  muster::test::skip(error);
  return true;
}

inline const NativeFrame* frame_with(const NativeThread& thread, std::string_view function) {
  const auto found = std::find_if(thread.frames.begin(), thread.frames.end(), [function](const auto& frame) {
    return frame.function.find(function) != std::string::npos;
  });
  return found == thread.frames.end() ? nullptr : &*found;
}

}  // namespace muster::agent::test
