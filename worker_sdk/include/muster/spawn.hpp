// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of a job from one program, on this host.
#pragma once

#include "muster/abi/spawn.h"
#include "muster/check.hpp"
#include "muster/world.hpp"

#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <type_traits>

namespace muster {
inline namespace v0 {

struct SpawnLimits {
  /// Time for all ranks to end. Default: no bound.
  std::chrono::milliseconds deadline{0};
  /// Time between SIGTERM and SIGKILL for the other ranks after a failure. Default: 5 seconds.
  std::chrono::milliseconds grace = by_default;
};

/// The first rank that failed; what() has its reason.
class SpawnError : public Error {
 public:
  SpawnError(muster_rc rc, const muster_spawn_failure& failure)
      : Error(static_cast<ErrorCode>(rc), muster_error_text(nullptr)), failure_(failure) {}

  /// The rank that failed; -1: none did, the deadline passed.
  int rank() const { return failure_.rank; }

  /// The exit code of the rank's process, or 128 + signal.
  int exit_code() const { return failure_.exit_code; }

  /// The signal that ended the rank's process, or 0.
  int signal() const { return failure_.signal; }

 private:
  muster_spawn_failure failure_;
};

/// A function that a rank runs: it gets the world, already joined, or the number of the rank.
template <class Body>
concept SpawnBody = std::invocable<Body&, World&> || std::invocable<Body&, int>;

namespace detail {

/// Runs the body with the world joined. A rank that fails does not leave in order, because the others would
/// take that for the cause of their own failures: they learn of its end by the end of its process, which
/// follows soon.
template <class Body>
void run_in_world(Body& body) {
  auto world = std::make_unique<World>();
  try {
    body(*world);
    world->finalize();
  } catch (...) {
    static_cast<void>(world.release());
    throw;
  }
}

template <class Body>
int32_t run_spawned(int32_t rank, int32_t, void* user) {
  Body& body = *static_cast<Body*>(user);
  try {
    if constexpr (std::invocable<Body&, World&>) {
      run_in_world(body);
    } else {
      body(rank);
    }
    return 0;
  } catch (const std::exception& error) {
    static_cast<void>(muster_spawn_reason(error.what()));
  } catch (...) {
    static_cast<void>(muster_spawn_reason("an exception that is no std::exception"));
  }
  return 1;
}

}  // namespace detail

/// Runs `body(world)`, with the world joined, or `body(rank)` in `count` processes and waits for them. The
/// first that throws ends the others. Call it before any thread is started and before any device is used.
/// Throws SpawnError, or Error: state when this process has threads.
template <SpawnBody Body>
void spawn(Body&& body, int count, const SpawnLimits& limits = {}) {
  using Plain = std::remove_reference_t<Body>;
  muster_spawn_options options = {};
  options.size = sizeof options;
  options.deadline_ms = limits.deadline.count();
  options.grace_ms = limits.grace.count();
  muster_spawn_failure failure = {};
  failure.size = sizeof failure;
  failure.rank = -1;
  void* const user = const_cast<void*>(static_cast<const void*>(std::addressof(body)));
  const muster_rc rc = muster_spawn(&detail::run_spawned<Plain>, user, count, &options, &failure);
  if (rc == MUSTER_E_PEER || rc == MUSTER_E_DEADLINE) throw SpawnError(rc, failure);
  detail::check(rc);
}

}  // namespace v0
}  // namespace muster
