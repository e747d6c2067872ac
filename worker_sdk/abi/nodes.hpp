// SPDX-License-Identifier: Apache-2.0
// The nodes behind the handles of worlds, groups, works and stores.
#pragma once

#include "worker_sdk/abi/handle.hpp"
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/store/store_client.hpp"
#include "worker_sdk/world/world.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace muster::abi {

struct WorldNode : Node {
  static constexpr Kind kKind = Kind::world;

  WorldNode(std::unique_ptr<World> made, std::chrono::milliseconds limit)
      : Node(kKind, nullptr), world(std::move(made)), timeout(limit) {}

  std::unique_ptr<World> world;
  std::chrono::milliseconds timeout;
  std::string backend{world->group().backend()};
  std::atomic<bool> aborted = false;  ///< whether muster_abort() was called in this process
  std::mutex mutex;                   ///< protects the two members below, which are made when first asked for
  Node* group = nullptr;
  Node* store = nullptr;
  /// Protects `abort_reason`. It is not `mutex`, which may be held while the store is asked: an abort must
  /// not wait.
  std::mutex abort_mutex;
  std::string abort_reason;

  /// Marks the world as aborted. Of several reasons the first one counts.
  void mark_aborted(const std::string& reason) {
    const std::lock_guard lock(abort_mutex);
    if (!aborted) abort_reason = reason;
    aborted = true;
  }

  std::string reason_of_abort() {
    const std::lock_guard lock(abort_mutex);
    return abort_reason;
  }
};

struct GroupNode : Node {
  static constexpr Kind kKind = Kind::group;

  /// `made` is null for the world's own group, which is not freed alone.
  GroupNode(WorldNode& parent, ProcessGroup& the_group, std::unique_ptr<ProcessGroup> made);

  WorldNode& world;
  std::unique_ptr<ProcessGroup> owned;
  ProcessGroup& group;
  std::vector<std::int32_t> ranks;  ///< the ranks of the group in the world
  std::string backend;
  std::atomic<bool> failed = false;
  bool collecting = false;  ///< whether a batch has begun and not ended
  std::vector<Operation> batch;
  std::deque<std::vector<std::uint64_t>> counts;  ///< the counts of the calls in `batch`
};

struct WorkNode : Node {
  static constexpr Kind kKind = Kind::work;

  WorkNode(GroupNode& parent, std::shared_ptr<Work> started)
      : Node(kKind, &parent), group(parent), work(std::move(started)) {}

  GroupNode& group;
  std::shared_ptr<Work> work;
};

struct StoreNode : Node {
  static constexpr Kind kKind = Kind::store;

  /// `made` is null for the world's own store.
  StoreNode(Node* parent, StoreClient& client, std::unique_ptr<StoreClient> made,
            std::chrono::milliseconds limit)
      : Node(kKind, parent), owned(std::move(made)), store(client), timeout(limit) {}

  std::unique_ptr<StoreClient> owned;
  StoreClient& store;
  std::chrono::milliseconds timeout;
};

/// Whether a group works as before after a failure with this code.
inline bool leaves_group_alive(ErrorCode code) {
  return code == ErrorCode::invalid_argument || code == ErrorCode::state || code == ErrorCode::unsupported;
}

/// Runs `body`; an Error that the group does not survive marks it as failed.
template <class Body>
void watching(GroupNode& node, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (!leaves_group_alive(error.code())) node.failed = true;
    throw;
  }
}

/// The public handle of a node.
template <class Handle>
Handle* handle_of(const Node* node) {
  return reinterpret_cast<Handle*>(node->shell());
}

/// Gives out a node of a world that it makes once, by `make`, and keeps in its member `kept`.
template <class Handle, class Make>
muster_rc give_kept(const char* call, muster_world* world, Handle** place, const char* what,
                    Node* WorldNode::*kept, Make&& make) {
  return giving<WorldNode>(call, world, place, what, [&](WorldNode& node) {
    const std::lock_guard lock(node.mutex);
    if (node.*kept == nullptr) node.*kept = make(node);
    *place = handle_of<Handle>(node.*kept);
  });
}

/// Frees the node of a handle; null is none. A node that belongs to its world is refused with `refusal`.
template <class Owned>
muster_rc free_owned(const char* call, const void* handle, const char* refusal) {
  if (handle == nullptr) return MUSTER_OK;
  return with_node<Owned>(call, handle, [&](Owned& node) {
    if (!node.owned)
      throw Error(ErrorCode::invalid_argument, std::string(refusal) + "; muster_finalize() frees it");
    Node::release(&node);
  });
}

}  // namespace muster::abi
