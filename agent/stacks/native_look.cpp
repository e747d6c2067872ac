// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/native_look.hpp"

#include "agent/stacks/native_reader.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <malloc.h>

#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace muster::agent {

/// `processes` and `deadline` do not change; the mutex guards the rest.
struct NativeLook::Look {
  std::vector<Process> processes;
  StackDeadline deadline;

  std::mutex mutex;
  std::map<pid_t, NativeStacks> found;
  bool done = false;

  void run() {
    try {
      for (std::size_t i = 0; i < processes.size(); ++i) {
        const Process& process = processes[i];
        const auto now = StackDeadline::clock::now();
        if (now >= deadline) break;
        // Each of those that are left gets the same part of the time, so that a large first one leaves some.
        const auto part = (deadline - now) / static_cast<int>(processes.size() - i);
        read_native_stacks(process.pid, process.started, now + part, [this, &process](NativeStacks stacks) {
          const std::lock_guard lock(mutex);
          found[process.pid] = std::move(stacks);
        });
      }
    } catch (const std::exception&) {
      // Without memory for it, what was found out stands.
    }
    ::malloc_trim(0);  // sections of large files were copied
    const std::lock_guard lock(mutex);
    done = true;
  }
};

bool NativeLook::begin(std::vector<Process> processes, StackDeadline deadline) {
  if (look_) {
    const std::lock_guard lock(look_->mutex);
    if (!look_->done) return false;
  }
  const auto look = std::make_shared<Look>();
  for (const Process& process : processes) look->found[process.pid].error = kNoTime;
  look->processes = std::move(processes);
  look->deadline = deadline;
  try {
    quiet_thread([look] { look->run(); }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  look_ = look;
  return true;
}

bool NativeLook::is_over() const {
  if (!look_ || StackDeadline::clock::now() >= look_->deadline) return true;
  const std::lock_guard lock(look_->mutex);
  return look_->done;
}

std::map<pid_t, NativeStacks> NativeLook::found() const {
  if (!look_) return {};
  const std::lock_guard lock(look_->mutex);
  return look_->found;
}

}  // namespace muster::agent
