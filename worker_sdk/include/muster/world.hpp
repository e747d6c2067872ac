// SPDX-License-Identifier: Apache-2.0
// A process's place in a job, from which all other objects are made.
#pragma once

#include "muster/abi/world.h"
#include "muster/check.hpp"
#include "muster/group.hpp"
#include "muster/store.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace muster {
inline namespace v0 {

/// Options for joining a job. Members mean what they mean in muster_options (muster/abi/world.h).
struct Options {
  /// The way in which the ranks meet: "tcp://host:port", "file:///path", or "" for what the environment says.
  std::string init_url = {};
  /// The backend: "auto", "shm", "gloo", "hierarchical", "mpi", "nccl". "": MUSTER_BACKEND, else "auto".
  std::string backend = {};
  /// This rank and the number of ranks: give both or none. Without them the environment tells them.
  std::optional<int> rank = std::nullopt;
  std::optional<int> size = std::nullopt;
  /// The GPU for nccl. Without it: the one of the local rank.
  std::optional<int> device = std::nullopt;
  /// Time for all ranks to come together. Default: 5 minutes.
  std::chrono::milliseconds join_deadline = by_default;
  /// Longest time that one call waits for the other ranks. Default: 10 minutes.
  std::chrono::milliseconds timeout = by_default;
  /// A call that waits longer is reported on stderr; negative: never. Default: 15 seconds.
  std::chrono::milliseconds report_after = by_default;
};

/// One world; several may live in one process. The destructor leaves at once, as leave() does, because after
/// an exception no rank should be waited for. A program that ends in order calls finalize(). One thread at a
/// time; any thread may call set_step(), should_stop() and abort().
class World {
 public:
  /// Joins the job. Throws Error: invalid_argument names the option or variable that is missing or wrong,
  /// deadline the ranks that did not come.
  explicit World(const Options& options = {})
      : handle_(join(options)), group_(world_group(handle_.get()), false) {}

  int rank() const { return info().rank; }

  int size() const { return info().world_size; }

  /// The facts about this process and its job; the strings are valid as long as the world.
  muster_world_info info() const {
    muster_world_info info = {};
    info.size = sizeof info;
    detail::check(muster_info(handle_.get(), &info));
    return info;
  }

  /// The group of all ranks.
  Group& group() { return group_; }

  /// The store with the keys of this world alone; in a world of one that no launcher started, it is inside
  /// the process.
  Store store() {
    muster_store* store = nullptr;
    detail::check(muster_store_world(handle_.get(), &store));
    return {store, false};
  }

  /// Returns when every rank has called it with this name. Throws Error (deadline) that names the missing
  /// ranks, or (peer_lost, aborted) one that will not come.
  void barrier(const std::string& name, std::chrono::milliseconds limit = by_default) {
    detail::check(muster_barrier_named(handle_.get(), name.c_str(), limit.count()));
  }

  /// Tells where the program is, as the number of the training step, for the reports of failures and of late
  /// ranks. Default: 0. Any thread.
  void set_step(std::uint64_t step) { detail::check(muster_set_step(handle_.get(), step)); }

  /// Whether the launcher has told this node's workers to end, with a time of grace. A local answer: the
  /// ranks agree on it, as by an all_reduce, before they save together. Always false without our launcher.
  /// Any thread; cheap enough for every step.
  bool should_stop() const {
    const int told = muster_should_stop(handle_.get());
    if (told < 0) detail::raise(told);
    return told != 0;
  }

  /// Waits until every rank has called it (default: 30 seconds) and leaves. The world cannot be used any
  /// more, also when it throws.
  void finalize(std::chrono::milliseconds limit = by_default) {
    if (limit.count() < 0)
      throw Error(ErrorCode::invalid_argument, "finalize: a limit of " + std::to_string(limit.count()) +
                                                   " ms is negative; give 0 for the default");
    detail::check(muster_finalize(handle_.release(), limit.count()));
  }

  /// Leaves without a barrier (over Gloo, MPI and NCCL each group waits 1 to 2 s at most for the others to
  /// go); where this rank serves the store, the store ends within a tenth of a second.
  void leave() { handle_.reset(); }

  /// Makes the present and every later call of every rank fail with `reason`. Any thread, at any time.
  void abort(const std::string& reason) { detail::check(muster_abort(handle_.get(), reason.c_str())); }

  muster_world* handle() const { return handle_.get(); }

 private:
  static muster_world* join(const Options& given) {
    if (given.rank.has_value() != given.size.has_value())
      throw Error(ErrorCode::invalid_argument,
                  "Options has one of rank and size; give both, or none to find them in "
                  "the environment");
    if (given.size.has_value() && *given.size < 1)
      throw Error(ErrorCode::invalid_argument,
                  "Options.size is " + std::to_string(*given.size) + "; give 1 or more");
    muster_options options = {};
    options.size = sizeof options;
    options.init_url = given.init_url.empty() ? nullptr : given.init_url.c_str();
    options.backend = given.backend.empty() ? nullptr : given.backend.c_str();
    options.rank = given.rank.value_or(0);
    options.world_size = given.size.value_or(0);
    if (given.device.has_value()) {
      options.flags |= MUSTER_USE_DEVICE;
      options.device = *given.device;
    }
    options.join_deadline_ms = given.join_deadline.count();
    options.timeout_ms = given.timeout.count();
    options.report_ms = given.report_after.count();
    muster_world* world = nullptr;
    detail::check(muster_init(&options, &world));
    return world;
  }

  static muster_group* world_group(muster_world* world) {
    muster_group* group = nullptr;
    detail::check(muster_group_world(world, &group));
    return group;
  }

  detail::Owned<muster_world, muster_leave> handle_;
  Group group_;
};

/// Joins the job as World(options) does: the first line of a program.
inline World init(const Options& options = {}) {
  return World(options);
}

}  // namespace v0
}  // namespace muster
