// SPDX-License-Identifier: Apache-2.0
// A child of this process that does something in its place, which may end who does it.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <sys/types.h>

#include <functional>
#include <optional>

namespace muster {

/// A forked child. Who reaps, counts or ends all children of this process asks is_own_child() and leaves it
/// alone, or tells own_child_ended(). One thread, which may be any.
class OwnChild {
 public:
  /// Forks. `work` runs in the child, which ends with what it returns, without a core dump, and is killed as
  /// soon as the calling thread ends. Of the parent's descriptors it has none but `kept`, as kKept, and the
  /// null device in place of its standard streams. Other threads of the parent may have been anywhere: what
  /// they lock besides the C library's memory must not be locked by `work`. Throws std::system_error.
  OwnChild(int kept, const std::function<int()>& work);

  /// Kills the child, and waits until the kernel lets it go.
  ~OwnChild();

  OwnChild(const OwnChild&) = delete;
  OwnChild& operator=(const OwnChild&) = delete;

  void kill() const;

  /// Waits for its end. Returns what waitpid(2) tells.
  int wait();

  static constexpr int kKept = 3;

 private:
  pid_t pid_ = 0;
  UniqueFd pidfd_;
  std::optional<int> status_;
};

/// Whether such a child, which was not reaped yet, has this number. Any thread.
bool is_own_child(pid_t pid);

/// Whether there is one. Any thread.
bool has_own_child();

/// Reaps a child that has ended if it is such a one, and keeps what it ended with for who waits for it.
/// Returns whether it is. Any thread.
bool reap_own_child(pid_t pid);

}  // namespace muster
