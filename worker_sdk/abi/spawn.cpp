// SPDX-License-Identifier: Apache-2.0
#include "muster/abi/spawn.h"

#include "muster/error.hpp"
#include "worker_sdk/abi/failure.hpp"
#include "worker_sdk/abi/options.hpp"
#include "worker_sdk/world/spawn.hpp"

#include <stdexcept>

namespace muster::abi {
namespace {

std::string& spawn_reason() {
  thread_local std::string reason;
  return reason;
}

SpawnOptions spawn_options(const muster_spawn_options& given) {
  SpawnOptions options;
  const auto deadline = read_deadline(given.deadline_ms, std::chrono::milliseconds(0));
  if (given.deadline_ms != 0) options.deadline = deadline;
  options.grace = read_deadline(given.grace_ms, options.grace);
  return options;
}

/// Runs the function in a new rank. The text of a thrown exception is given to the parent.
int run_rank(muster_spawn_fn fn, void* user, int rank, int size) {
  // A failure that this thread had in the parent is not the reason of a failure of the rank.
  spawn_reason().clear();
  forget_failure();
  const int code = fn(rank, size, user);
  if (code != 1) return code;
  const Failure last = last_failure();
  const std::string reason = spawn_reason().empty() ? last.text : spawn_reason();
  if (reason.empty()) return code;
  // The code tells the parent whether this rank failed by itself or because another rank had failed.
  if (last.code != MUSTER_OK && reason.find(last.text) != std::string::npos)
    throw muster::Error(static_cast<muster::ErrorCode>(last.code), reason);
  throw std::runtime_error(reason);
}

void report(const SpawnFailure& failure, muster_spawn_failure* out) {
  if (out == nullptr) return;
  muster_spawn_failure known = {};
  known.rank = failure.rank;
  known.exit_code = failure.exit_code;
  known.signal = failure.signal;
  write_result(out, known, "muster_spawn_failure");
}

}  // namespace
}  // namespace muster::abi

using namespace muster::abi;

extern "C" {

muster_rc muster_spawn(muster_spawn_fn fn, void* user, int32_t count, const muster_spawn_options* options,
                       muster_spawn_failure* failure) {
  return guarded(__func__, nullptr, [&] {
    require(reinterpret_cast<const void*>(fn), "the function for the ranks");
    const muster::SpawnOptions found = spawn_options(read_options(options, "muster_spawn_options"));
    report({}, failure);
    const auto first = muster::try_spawn(
        [fn, user](int rank, int size) { return run_rank(fn, user, rank, size); }, count, found);
    if (!first) return;
    report(*first, failure);
    const bool late = first->rank < 0;
    throw muster::Error(late ? muster::ErrorCode::deadline : muster::ErrorCode::peer_lost,
                        describe(*first, count));
  });
}

muster_rc muster_spawn_reason(const char* text) {
  return guarded(__func__, nullptr, [&] {
    require(text, "the reason");
    spawn_reason() = text;
  });
}
}
