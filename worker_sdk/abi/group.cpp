// SPDX-License-Identifier: Apache-2.0
#include "muster/abi/group.h"

#include "worker_sdk/abi/failure.hpp"
#include "worker_sdk/abi/nodes.hpp"
#include "worker_sdk/abi/options.hpp"

#include <limits>
#include <numeric>
#include <span>

namespace muster::abi {

GroupNode::GroupNode(WorldNode& parent, ProcessGroup& the_group, std::unique_ptr<ProcessGroup> made)
    : Node(kKind, &parent),
      world(parent),
      owned(std::move(made)),
      group(the_group),
      ranks(group.plan().members.begin(), group.plan().members.end()),
      backend(group.backend()) {
  if (!ranks.empty()) return;
  ranks.resize(static_cast<std::size_t>(group.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
}

namespace {

muster_group* give_out(GroupNode& parent, std::unique_ptr<ProcessGroup> made) {
  if (!made) return nullptr;
  ProcessGroup& group = *made;
  WorldNode& world = parent.world;
  const auto* node = make_node<GroupNode>(world, group, std::move(made));
  // An abort may have come too early to see the new group.
  if (world.aborted) group.abort(world.reason_of_abort());
  return handle_of<muster_group>(node);
}

void require_no_batch(const GroupNode& node) {
  if (node.collecting)
    throw Error(ErrorCode::state, "a batch is open on the group '" + node.group.name() +
                                      "'; call muster_batch_end() or muster_batch_cancel() first");
}

muster_rc give_memory(const char* call, muster_group* group, std::uint64_t bytes, void** memory,
                      MemoryKind kind) {
  return giving<GroupNode>(call, group, memory, "the place for the memory", [&](GroupNode& node) {
    require_no_batch(node);
    watching(node, [&] { *memory = node.group.allocate(bytes, kind); });
  });
}

}  // namespace
}  // namespace muster::abi

using namespace muster::abi;

extern "C" {

muster_rc muster_group_world(muster_world* world, muster_group** group) {
  return give_kept(__func__, world, group, "the place for the group", &WorldNode::group,
                   [](WorldNode& node) { return make_node<GroupNode>(node, node.world->group(), nullptr); });
}

muster_rc muster_group_split(muster_group* parent, int32_t color, int32_t key, muster_group** group) {
  return giving<GroupNode>(__func__, parent, group, "the place for the group", [&](GroupNode& node) {
    require_no_batch(node);
    watching(node, [&] { *group = give_out(node, node.group.split(color, key)); });
  });
}

muster_rc muster_group_new(muster_group* parent, const int32_t* ranks, uint32_t count, muster_group** group) {
  return giving<GroupNode>(__func__, parent, group, "the place for the group", [&](GroupNode& node) {
    if (count > 0) require(ranks, "the list of ranks");
    require_no_batch(node);
    watching(node,
             [&] { *group = give_out(node, node.group.new_group(std::span<const int>(ranks, count))); });
  });
}

muster_rc muster_group_get_info(muster_group* group, muster_group_info* info) {
  return with_node<GroupNode>(__func__, group, [&](GroupNode& node) {
    require(info, "the place for the info");
    muster_group_info known = {};
    known.rank = node.group.rank();
    known.group_size = node.group.size();
    known.name = node.group.name().c_str();
    known.backend = node.backend.c_str();
    known.ranks = node.ranks.data();
    write_result(info, known, "muster_group_info");
  });
}

muster_rc muster_group_get_traffic(muster_group* group, muster_traffic* traffic) {
  return with_node<GroupNode>(__func__, group, [&](GroupNode& node) {
    require(traffic, "the place for the traffic");
    const muster::Traffic moved = node.group.traffic();
    muster_traffic known = {};
    known.payload_bytes = moved.payload;
    known.wire_bytes = moved.wire.bytes;
    known.wire_messages = moved.wire.messages;
    known.control_bytes = moved.wire.control_bytes;
    known.control_messages = moved.wire.control_messages;
    write_result(traffic, known, "muster_traffic");
  });
}

muster_rc muster_group_abort(muster_group* group, const char* reason) {
  return with_node<GroupNode>(__func__, group, [&](GroupNode& node) {
    node.failed = true;
    node.group.abort(text_or(reason, "no reason given"));
  });
}

muster_rc muster_group_free(muster_group* group) {
  return free_owned<GroupNode>(__func__, group, "the group of all ranks belongs to its world");
}

muster_rc muster_alloc(muster_group* group, uint64_t bytes, void** memory) {
  return give_memory(__func__, group, bytes, memory, muster::MemoryKind::host);
}

muster_rc muster_alloc_device(muster_group* group, uint64_t bytes, void** memory) {
  return give_memory(__func__, group, bytes, memory, muster::MemoryKind::device);
}
}
