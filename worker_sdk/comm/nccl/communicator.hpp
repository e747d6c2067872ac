// SPDX-License-Identifier: Apache-2.0
// One NCCL communicator in the non-blocking mode: no call stays in NCCL, so it can be revoked at any time.
#pragma once

#include "worker_sdk/comm/nccl/library.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace muster::nccl {

/// Any thread: one mutex a device keeps NCCL's rule that a communicator is used by one thread at a time, and
/// communicators of one device by one thread, too (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/
/// usage/threadsafety.html).
class Communicator {
 public:
  /// Called while NCCL is at work; throws to give up.
  using Patience = std::function<void()>;
  /// NCCL calls on the communicator that it is given, one, or several as one NCCL group.
  using Calls = std::function<ncclResult_t(ncclComm_t)>;

  Communicator(const Library& api, int device, std::string group);
  /// close() or nothing has been called before; what is left is aborted.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Returns when all ranks have come.
  void init(const ncclUniqueId& id, int rank, int size, const Patience& patience);

  /// Returns when the calls are on their streams, and what they give is there. Throws Error (backend) with
  /// NCCL's words.
  void run(const char* what, const Calls& calls, const Patience& patience);

  /// Calls `work`, which launches recorded calls and calls no group, while nobody can revoke the
  /// communicator. Throws Error (aborted) when it has been. Any thread.
  void launch(const std::function<void()>& work);

  /// What NCCL says went wrong since; empty when nothing did, or when another thread is in NCCL.
  std::optional<std::string> failure();

  /// Ends what is on the device, and everything later: an NCCL that cannot revoke, or does not within
  /// `limit`, frees the communicator by force on a thread of its own. False when that thread has not come
  /// back after `limit`, either.
  bool revoke(std::chrono::milliseconds limit);

  /// Frees it: with its peers when it works, while `patience` lasts, by force when it does not. False when
  /// NCCL had not come back after `limit`; then a thread is left in it.
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
  std::atomic<bool> thread_left_ = false;  ///< NCCL has not come back from freeing
};

}  // namespace muster::nccl
