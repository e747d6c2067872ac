// SPDX-License-Identifier: Apache-2.0
// The console process of a detached job as its launcher sees it.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <chrono>
#include <string>

namespace muster::launcher {

/// A child named muster:console that keeps what the job prints (console_body.hpp). It ends by itself when
/// nobody can print any more, and needs nothing else of its launcher, which goes on where it is killed.
class ConsoleProcess {
 public:
  /// Forks it, and makes it the reader of our stdout and stderr, and so of those of the processes that we
  /// fork from now on. `folder` is that of the console; `outlives` is as for run_console(). Call it while
  /// there is one thread. Throws std::system_error.
  ConsoleProcess(const std::string& folder, std::chrono::milliseconds outlives);

  /// Says how the job has ended, lets go of stdout and stderr, and waits for the end of the process: no
  /// longer than kEndAtMost, for the disk may be silent.
  void finish(int exit_code);

  /// Returns its pidfd.
  int pidfd() const { return pidfd_.get(); }

  static constexpr std::chrono::milliseconds kEndAtMost{1000};

 private:
  UniqueFd pidfd_;
};

/// Lets a console process that somebody has stopped (SIGSTOP) go on; returns whether it was. `pidfd` is that
/// of a child of ours.
bool continue_console(int pidfd);

/// Makes stdin the null device, and with `all` stdout and stderr, too.
void use_null_device(bool all);

}  // namespace muster::launcher
