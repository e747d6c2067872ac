// SPDX-License-Identifier: Apache-2.0
// A communicator of the fake.
#pragma once

#include "tests/fakes/cuda/fake_cuda.hpp"
#include "tests/fakes/nccl/segment.hpp"
#include "worker_sdk/comm/nccl/nccl_headers.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace fake {

/// A call between ncclGroupStart() and ncclGroupEnd(), or alone.
struct Operation {
  bool is_message = false;
  bool sends = false;
  int peer = 0;
  Descriptor call{};
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  CUstream stream = nullptr;
};

std::size_t size_of(ncclDataType_t type);

/// What FAKE_NCCL_FAULT says: "fail@3", "remote@3", "hang@3", with ":1" behind for rank 1 alone; "init" may
/// stand for the number. fail: the call returns ncclSystemError. remote: the call never ends and the
/// communicator says ncclRemoteError. hang: the call never ends.
std::string fault_at(const std::string& place, int rank);

}  // namespace fake

struct ncclComm {
  int rank = 0;
  int size = 1;
  int device = 0;
  bool blocking = true;
  std::unique_ptr<fake::Segment> segment;
  std::thread helper;  ///< joins, registers a window, revokes or finalizes

  std::atomic<ncclResult_t> state{ncclSuccess};
  std::atomic<bool> cut{false};  ///< aborted, or being revoked: nothing waits any more
  std::atomic<bool> ended{false};
  std::atomic<bool> revoked{false};
  std::atomic<bool> finalizing{false};
  std::atomic<bool> finalized{false};
  std::atomic<int> tasks{0};  ///< on streams
  std::atomic<std::uint64_t> turn{0};
  std::uint64_t next_turn = 0;
  std::uint64_t collectives = 0;
  std::uint64_t issued = 0;
  std::chrono::steady_clock::time_point busy_until{};
  /// A graph that recorded calls of this communicator holds a copy as long as it lives.
  std::shared_ptr<int> graphs = std::make_shared<int>(0);

  std::mutex user_mutex;
  std::optional<std::thread::id> user;  ///< thread with an open group that uses it, or that is in a call

  /// Waits, until true is returned or the communicator is cut: then false.
  template <typename Condition>
  bool wait(Condition condition) {
    while (!condition()) {
      if (cut.load()) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return true;
  }

  bool has_live_graphs() const { return graphs.use_count() > 1; }

  /// Does `work` behind the caller's back: the state is ncclInProgress until then, and what it returns after.
  void go_on(std::function<ncclResult_t()> work);

  fake::RankBlock& block(int peer) const { return segment->shared().ranks[peer]; }
};

namespace fake {

/// Whether the handle is one of a communicator that lives; a broken rule if not.
bool is_alive(ncclComm_t comm, const char* function);
void add(ncclComm_t comm);
void remove(ncclComm_t comm);

/// Whether a call may be made now: ncclSuccess, or what it returns, and a broken rule where it breaks one.
ncclResult_t check_state(ncclComm& comm, const char* function);

/// Puts the operations of one NCCL group on their streams.
ncclResult_t launch(ncclComm_t comm, const std::vector<Operation>& operations);

/// On a stream's thread. False when cut.
bool run_collective(ncclComm& comm, const Operation& operation, std::uint64_t number);
bool run_messages(ncclComm& comm, std::vector<Operation> messages);

/// out = the reduction of all ranks' elements [first, first + count) in rank order.
void reduce_areas(const ncclComm& comm, const Descriptor& call, std::size_t first, std::size_t count,
                  std::byte* out);

}  // namespace fake
