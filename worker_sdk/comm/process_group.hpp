// SPDX-License-Identifier: Apache-2.0
// A process group: the ranks of a job that exchange buffers together.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/comm/backend.hpp"
#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/group_plan.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

class CallQueue;

/// Sees every call of a group, on the thread that makes the call and while it makes it, so it must take
/// nanoseconds.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  /// Called before the backend sees the call. May throw Error, which ends the call and the group.
  virtual void entering(const Call& call) = 0;
  virtual void completed(const Call& call) = 0;
  virtual void failed(const Call& call, const Error& error) noexcept = 0;
};

/// Makes the groups of one world. All ranks of a plan call make() alike. Any thread: groups of different
/// plans may be made at the same time, and the ranks need not begin them in one order.
class GroupFactory {
 public:
  virtual ~GroupFactory() = default;
  virtual std::unique_ptr<Backend> make(const GroupPlan& plan) = 0;

  /// The observer of the group's calls. Null: nobody observes them.
  virtual std::shared_ptr<CallObserver> observer(const GroupPlan&) { return nullptr; }

  /// Makes a new group known to those who may abort its backend, until the result is destroyed.
  virtual std::shared_ptr<void> registration(const GroupPlan&, Backend&) { return nullptr; }
};

/// A call that was started and not waited for. Any thread, one at a time.
class Work {
 public:
  virtual ~Work() = default;
  /// Whether the call is complete on this rank. Throws Error when it failed.
  virtual bool test() = 0;
  /// Waits until the call is complete. Throws the call's error, or Error (deadline) after `limit`; the call
  /// itself goes on then, with the deadline of its group.
  virtual void wait(std::optional<std::chrono::milliseconds> limit = std::nullopt) = 0;

  struct Interval {
    std::chrono::steady_clock::time_point begin;
    std::chrono::steady_clock::time_point end;
  };

  /// The time from the turn of the call in its group to its end. Nothing before it is complete, and for a
  /// call on a device.
  virtual std::optional<Interval> interval() { return std::nullopt; }
};

/// Ranks of one job and the calls between them.
/// All ranks make the same collective calls in the same order. A call that differs between ranks fails on
/// every rank with both calls named. Every call ends by the deadline of the group's options. An Error other
/// than invalid_argument leaves the group dead: later calls fail with the same text.
/// Calls may come from any thread, one at a time; abort() at any time.
/// A group with the backend nccl has two kinds of memory: the buffers of a call are both of the host or both
/// of the device, on all ranks alike, and the buffers of a call with a stream are of the device. A call on
/// memory of the host goes over shared memory (between hosts hierarchical), and so does a call without
/// buffers and without a stream. A call on the device begins when the calls on memory of the host before it
/// are complete.
class ProcessGroup {
 public:
  /// `factory` may be null: then there are no split() and no observer.
  ProcessGroup(std::unique_ptr<Backend> backend, GroupPlan plan,
               std::shared_ptr<GroupFactory> factory = nullptr);
  /// Aborts the calls that were started and are not complete.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return plan_.rank; }

  int size() const { return plan_.size; }

  const std::string& name() const { return plan_.options.name; }

  std::string_view backend() const { return backend_->name(); }

  /// Whether a call of this rank has failed so that every later one does. Any thread.
  bool has_failed() const { return has_failed_; }

  const GroupPlan& plan() const { return plan_; }

  /// Runs a call (its sequence is given here) and returns when it is complete on this rank.
  void run(Operation operation);
  /// Runs calls as one: collectives in their order, sends and receives all at once, so that they cannot wait
  /// for one another.
  void run(std::vector<Operation> batch);
  /// Starts a batch as run() does and does not wait. The buffers belong to the call until the work is
  /// complete; counts are copied. Calls of a group run in the order in which they are started.
  std::shared_ptr<Work> start(std::vector<Operation> batch);

  /// Returns when every rank has called it.
  void barrier();
  /// Copies `bytes` bytes at `data` from rank `root` to all others.
  void broadcast(void* data, std::size_t bytes, int root);
  /// Reduces `count` elements over the ranks in rank order, in place: afterwards `data` holds the result on
  /// every rank, bit for bit the same. Memory from allocate() needs no copy.
  void all_reduce(void* data, std::size_t count, DataType type, ReduceOp op);
  /// Memory in which collectives need fewest copies, zeroed: of the host, or of the device, which the host
  /// cannot touch and only a group with the backend nccl has (else Error, unsupported). All ranks call it in
  /// the same order with the same size and kind. Lives as long as the group.
  void* allocate(std::size_t bytes, MemoryKind memory = MemoryKind::host);

  /// The bytes that those calls of this rank have moved that were started so far. Any thread.
  Traffic traffic() const;

  /// Calls `work`, which puts a graph with captured calls of this group on a stream. Throws Error without
  /// calling `work` when the group has failed: a captured call would wait on the device without end. Lets
  /// exceptions of `work` out. `work` must not call the group. Any thread.
  void launch(const std::function<void()>& work);

  /// Makes a group of the ranks that give the same color, ordered by key and then by rank in this group. All
  /// ranks call it. Null if the color is negative.
  std::unique_ptr<ProcessGroup> split(int color, int key);
  /// Makes a group of `ranks` of this group, in that order, without repetition. All ranks of this group call
  /// it alike; null on ranks that are not in the new group. Lists that differ are a mismatch on every rank.
  std::unique_ptr<ProcessGroup> new_group(std::span<const int> ranks);

  /// Makes every present and later call of every rank fail with `reason`. Any thread.
  void abort(const std::string& reason);

 private:
  friend class CallQueue;

  MemoryKind number(std::span<Operation> batch);
  void count(std::span<const Operation> batch);
  void run_numbered(std::span<Operation> batch);
  std::unique_ptr<ProcessGroup> make_child(int color, int key, std::span<const int> ranks);
  [[noreturn]] void refuse_lists(std::span<const int> ranks, int other);
  void check_alive();
  void fail(const Call& call, const Error& error);
  void execute(std::span<const Operation> batch);
  template <typename Body>
  auto attempt(const Call& call, Body body);
  template <typename Body>
  auto numbered_behind(std::uint64_t before, Body body);
  void wait_for_device(std::span<const Operation> batch);
  void completed(std::span<const Operation> batch);
  CallQueue& queue();

  GroupPlan plan_;
  std::shared_ptr<GroupFactory> factory_;
  std::shared_ptr<CallObserver> observer_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<void> registration_;  ///< destroyed before the backend
  std::mutex order_;  ///< held while a call is numbered and given its place; the queue's own lock is inner
  std::uint64_t sequence_ = 0;
  std::uint64_t children_ = 0;
  std::atomic<std::uint64_t> payload_times_size_{0};
  std::atomic<bool> has_failed_{false};
  std::mutex failure_mutex_;
  std::optional<Error> failure_;  ///< the Error that later calls throw
  std::unique_ptr<CallQueue> queue_;
};

}  // namespace muster
