// SPDX-License-Identifier: Apache-2.0
// The interface of a backend, which carries the calls of one group: shared memory, Gloo, MPI, NCCL, or
// several of them together.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/traffic.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace muster {

/// The work that a device backend has put on a stream. One thread at a time.
class Completion {
 public:
  virtual ~Completion() = default;
  /// Whether the work is done. Throws Error when it failed.
  virtual bool test() = 0;
};

/// One group of ranks on one transport. ProcessGroup (process_group.hpp) has checked the arguments and
/// numbered the calls; a backend makes sure that all ranks make the same call *before* any buffer is written,
/// moves the data, and keeps the deadline of the group. After an Error other than invalid_argument the group
/// is dead and run() is not called again. Only one thread at a time calls run() and allocate(); any thread
/// may call launch() meanwhile, and abort() at any time.
class Backend {
 public:
  Backend() = default;
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  /// The backend's name: "shm", "gloo", ...
  virtual std::string_view name() const = 0;

  /// Runs a batch, most often of one call: its collectives in their order, its sends and receives all at
  /// once. Returns when all calls are complete on this rank; a device backend returns when they are on the
  /// streams.
  virtual void run(std::span<const Operation> batch) = 0;

  /// Whether the backend takes calls on memory of a device: then run() only puts those on streams, and
  /// last_run() tells when the newest such batch is done.
  virtual bool is_device() const { return false; }

  /// Whether the backend takes calls on memory of this kind.
  virtual bool has(MemoryKind kind) const { return (kind == MemoryKind::device) == is_device(); }

  /// The kind of memory that the calls of a batch use, which becomes their Call::memory. Throws Error
  /// (invalid_argument) for buffers of both kinds. Any thread.
  virtual MemoryKind memory_of(std::span<const Operation>) {
    return is_device() ? MemoryKind::device : MemoryKind::host;
  }

  virtual std::unique_ptr<Completion> last_run() { return nullptr; }

  /// Memory of this rank in which the collectives of this group need fewest copies: zeroed, aligned to 64
  /// bytes at least, of the kind that the fingerprint `call` names. All ranks make the same call. The memory
  /// lives as long as the backend.
  virtual void* allocate(const Call& call) = 0;

  /// The bytes that this rank has sent over connections of the backend. Any thread.
  virtual Wire wire() const { return {}; }

  /// Calls `work`, which puts recorded calls of this group on a stream; throws Error instead if the group has
  /// failed. The group does not fail while `work` runs.
  virtual void launch(const std::function<void()>& work) { work(); }

  /// Makes the present and every later run() of every rank end with this error, soon. Must not throw.
  virtual void abort(ErrorCode code, const std::string& text) noexcept = 0;
};

}  // namespace muster
