// SPDX-License-Identifier: Apache-2.0
// One NCCL communicator in the non-blocking mode: no call stays inside NCCL, so the communicator can be
// revoked at any time.
#pragma once

#include "worker_sdk/comm/nccl/library.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace muster::nccl {

/// One communicator. Any thread: one mutex per device keeps NCCL's rule that a communicator is used by one
/// thread at a time, and so are communicators of one device
/// (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/threadsafety.html).
class Communicator {
 public:
  /// Called repeatedly while NCCL is at work; throws to give up.
  using Patience = std::function<void()>;
  /// Makes NCCL calls on the given communicator: one, or several as one NCCL group.
  using Calls = std::function<ncclResult_t(ncclComm_t)>;

  Communicator(const Library& api, int device, std::string group);
  /// Calls close() if the communicator has not been freed.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Makes the communicator; returns when all ranks have come.
  void init(const ncclUniqueId& id, int rank, int size, const Patience& patience);

  /// Issues calls; returns when they are on their streams and their results on the host are there. Throws
  /// Error (backend) with NCCL's words.
  void run(const char* what, const Calls& calls, const Patience& patience);

  /// Calls `work`, which launches recorded calls and calls no group, while no thread can revoke the
  /// communicator. Throws Error (aborted) when it has been revoked. Any thread.
  void launch(const std::function<void()>& work);

  /// The error that NCCL has reported since; empty when there is none, or when another thread is in NCCL.
  std::optional<std::string> failure();

  /// Ends the calls on the device, and all later ones. If NCCL cannot revoke, or not within `limit`, the
  /// communicator is freed by force on a thread of its own. False when that thread has not come back after
  /// another `limit`.
  bool revoke(std::chrono::milliseconds limit);

  /// Frees the communicator: together with its peers if it works, while `patience` lasts, by force if it does
  /// not. False when NCCL had not come back after `limit`; then a thread is left in NCCL.
  bool close(
      std::chrono::milliseconds limit, const Patience& patience = [] {});

 private:
  enum class State { none, starting, working, revoked, broken };

  void check_working() const;
  void settle(const char* what, const Patience& patience);
  [[noreturn]] void fail(const char* what, ncclResult_t result);

  bool begin_revoke(std::chrono::steady_clock::time_point end);
  bool free(std::chrono::milliseconds limit, bool by_force);
  ncclResult_t wait_for_state(std::chrono::steady_clock::time_point end, const Patience& patience);
  std::string words(ncclResult_t result) const;
  ncclResult_t state_of_comm();

  const Library& api_;
  /// Held while recorded calls are launched; taken before mutex_.
  std::mutex gate_;
  std::mutex& mutex_;
  std::string group_;
  ncclComm_t comm_ = nullptr;
  State state_ = State::none;
  std::atomic<bool> thread_left_ = false;  ///< whether NCCL has not come back from freeing
};

}  // namespace muster::nccl
