// SPDX-License-Identifier: Apache-2.0
// How signals and limits were set when we were started, so that workers start with the same.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <optional>

namespace muster::agent {

/// Signal mask, ignored signals and two limits at the start of this process: on core dumps (we ourselves
/// leave none where we hold keys) and on open files (we raise ours). Value type.
class SignalState {
 public:
  /// Reads the present state. Call before anything changes it.
  static SignalState capture();

  bool ignored(int signal) const { return sigismember(&ignored_, signal) == 1; }

  /// Workers get the default disposition for this one.
  void unignore(int signal) { sigdelset(&ignored_, signal); }

  /// Puts them back: default for every signal except those that were ignored. Async-signal-safe: called
  /// between fork and exec.
  void restore() const;

 private:
  sigset_t mask_{};
  sigset_t ignored_{};
  std::optional<rlimit> core_limit_;
  std::optional<rlimit> file_limit_;
};

/// Makes a write to a pipe that nobody reads (SIGPIPE), or beyond the limit of file sizes (SIGXFSZ), an error
/// of that write and not the end of this process.
void ignore_write_signals();

}  // namespace muster::agent
