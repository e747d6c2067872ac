// SPDX-License-Identifier: Apache-2.0
#include "muster/abi/world.h"

#include "worker_sdk/abi/failure.hpp"
#include "worker_sdk/abi/nodes.hpp"
#include "worker_sdk/abi/options.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <string>

namespace muster::abi {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFinalizeDeadline = std::chrono::seconds(30);

static_assert(MUSTER_LAUNCHER_NONE == static_cast<int>(Launcher::bare) &&
              MUSTER_LAUNCHER_MUSTER == static_cast<int>(Launcher::muster) &&
              MUSTER_LAUNCHER_TORCHRUN == static_cast<int>(Launcher::torchrun) &&
              MUSTER_LAUNCHER_MPIRUN == static_cast<int>(Launcher::mpirun) &&
              MUSTER_LAUNCHER_SLURM == static_cast<int>(Launcher::slurm) &&
              MUSTER_LAUNCHER_EXPLICIT == static_cast<int>(Launcher::explicit_ranks));

WorldOptions world_options(const muster_options& given) {
  WorldOptions options;
  if ((given.flags & ~std::uint32_t{MUSTER_USE_DEVICE}) != 0)
    throw Error(ErrorCode::invalid_argument, "muster_options.flags is " + std::to_string(given.flags) +
                                                 "; MUSTER_USE_DEVICE is the only flag there is");
  options.init_url = text_or(given.init_url, "");
  options.backend = text_or(given.backend, "");
  if (given.world_size < 0 || (given.world_size == 0 && given.rank != 0) ||
      (given.world_size > 0 && (given.rank < 0 || given.rank >= given.world_size)))
    throw Error(ErrorCode::invalid_argument,
                "muster_options has rank " + std::to_string(given.rank) + " and world_size " +
                    std::to_string(given.world_size) +
                    "; give a rank in [0, world_size), or 0 for both to find them in the environment");
  if (given.world_size > 0) {
    options.rank = given.rank;
    options.size = given.world_size;
  }
  if ((given.flags & MUSTER_USE_DEVICE) != 0) {
    if (given.device < 0)
      throw Error(ErrorCode::invalid_argument, "muster_options.device is " + std::to_string(given.device) +
                                                   "; give 0 or more, or no MUSTER_USE_DEVICE");
    options.device = given.device;
  }
  options.join_timeout = read_deadline(given.join_deadline_ms, options.join_timeout);
  options.timeout = read_deadline(given.timeout_ms, options.timeout);
  options.report_after =
      given.report_ms < 0 ? milliseconds(0) : read_deadline(given.report_ms, options.report_after);
  return options;
}

muster_world_info info_of(WorldNode& node) {
  const WorldInfo& known = node.world->info();
  muster_world_info info = {};
  info.rank = known.rank;
  info.world_size = known.size;
  info.local_rank = known.local_rank;
  info.local_size = known.local_size;
  info.node_rank = known.node_rank;
  info.nodes = known.nodes;
  info.restart_count = known.restart_count;
  info.launcher = static_cast<std::int32_t>(known.launcher);
  info.run_id = known.run_id.c_str();
  info.host = known.host.c_str();
  info.store = known.store.c_str();
  info.backend = node.backend.c_str();
  return info;
}

/// Whether the group of all ranks has failed, so that waiting for other ranks is of no use.
bool has_failed(WorldNode& node) {
  const std::lock_guard lock(node.mutex);
  return node.aborted || node.world->group().has_failed() ||
         (node.group != nullptr && static_cast<GroupNode*>(node.group)->failed);
}

/// The time that the other ranks get at least, if this rank serves the store, to read the reason of the end.
constexpr milliseconds kLeaveGrace{100};

void free_world(WorldNode& node, milliseconds limit) {
  try {
    node.world->prepare_to_leave(std::max(limit, kLeaveGrace), node.aborted ? node.reason_of_abort() : "");
  } catch (const std::bad_alloc&) {
    // The world is freed all the same, even if memory is lacking for its farewell.
  }
  Node::release(&node);
}

}  // namespace
}  // namespace muster::abi

using namespace muster::abi;

extern "C" {

muster_rc muster_init(const muster_options* options, muster_world** world) {
  if (world != nullptr) *world = nullptr;
  return guarded(__func__, nullptr, [&] {
    require(world, "the place for the world");
    const muster::WorldOptions found = world_options(read_options(options, "muster_options"));
    *world = handle_of<muster_world>(make_node<WorldNode>(muster::World::init(found), found.timeout));
  });
}

muster_rc muster_info(muster_world* world, muster_world_info* info) {
  return with_node<WorldNode>(__func__, world, [&](WorldNode& node) {
    require(info, "the place for the info");
    write_result(info, info_of(node), "muster_world_info");
  });
}

muster_rc muster_finalize(muster_world* world, int64_t deadline_ms) {
  WorldNode* node = nullptr;
  std::chrono::milliseconds limit{};
  const muster_rc refused = guarded(__func__, world, [&] {
    node = &open<WorldNode>(world);
    limit = read_deadline(deadline_ms, kFinalizeDeadline);
  });
  if (refused != MUSTER_OK) return refused;
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const muster_rc rc = guarded(__func__, world, [&] {
    node->world->finalize();
    if (node->world->info().size > 1 && !has_failed(*node)) node->world->barrier("muster/finalize", limit);
  });
  // The barrier's failure is the one to report, and the deadline is for the barrier and the end together.
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  free_world(*node, limit - spent);
  return rc;
}

muster_rc muster_leave(muster_world* world) {
  if (world == nullptr) return MUSTER_OK;
  return guarded(__func__, world, [&] { free_world(open<WorldNode>(world), std::chrono::milliseconds(0)); });
}

muster_rc muster_abort(muster_world* world, const char* reason) {
  return with_node<WorldNode>(__func__, world, [&](WorldNode& node) {
    const std::string text = text_or(reason, "no reason given");
    node.mark_aborted(text);
    node.world->group().abort(text);
    node.for_each_child([&text](Node& child) {
      if (auto* group = dynamic_cast<GroupNode*>(&child); group != nullptr && group->owned)
        group->group.abort(text);
    });
  });
}

muster_rc muster_set_step(muster_world* world, uint64_t step) {
  return guarded(__func__, world, [&] { open<WorldNode>(world).world->set_step(step); });
}

int muster_should_stop(muster_world* world) {
  bool told = false;
  const muster_rc rc = guarded(__func__, world, [&] { told = open<WorldNode>(world).world->should_stop(); });
  if (rc != MUSTER_OK) return rc;
  return told ? 1 : 0;
}

muster_rc muster_barrier_named(muster_world* world, const char* name, int64_t deadline_ms) {
  return with_node<WorldNode>(__func__, world, [&](WorldNode& node) {
    require(name, "the name of the barrier");
    node.world->barrier(std::string("user/") + name, read_deadline(deadline_ms, node.timeout));
  });
}
}
