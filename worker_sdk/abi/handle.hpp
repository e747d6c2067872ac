// SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of muster.h. A handle is a small shell that is never given back to the
// allocator, so a freed handle is recognised without undefined behaviour; the shells lie in memory that a
// forked child finds zeroed, so a child's handles are refused at no cost. Shells are used again: a stale
// handle is recognised as long as its shell is in quarantine, for at least 1024 handles that are freed after
// it.
#pragma once

#include "muster/abi/types.h"
#include "worker_sdk/abi/failure.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace muster::abi {

enum class Kind : std::uint32_t { none = 0, world = 0x4D737701, group, work, store, reducer, learner };

class Node;

/// The memory of a handle. A shell whose members are all zero is free.
struct Shell {
  std::atomic<Kind> kind;
  std::atomic<Node*> node;
};

/// The name of a kind, for messages: "group".
const char* name_of(Kind kind);

/// The object behind a handle. Nodes form a tree: a world and everything that was made from it. Freeing a
/// node frees all nodes below it.
class Node {
 public:
  /// `parent` may be null; it does not see the node until make_node() has completed it. Takes a shell, which
  /// the destructor gives back.
  Node(Kind kind, Node* parent);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  Shell* shell() const { return shell_; }

  Node* parent() const { return parent_; }

  /// Keeps the failure of a call with this handle as the last one. Any thread.
  void remember(const Failure& failure);
  Failure last_failure() const;

  /// Calls `visit` for each node right below this one. These nodes are complete, and are not freed meanwhile.
  template <class Visit>
  void for_each_child(Visit&& visit) const {
    const std::lock_guard lock(mutex_);
    for (Node* const child : children_) visit(*child);
  }

  /// Frees `node` and all nodes below it, children first and the youngest first.
  static void release(Node* node);

 private:
  template <class T, class... Arguments>
  friend T* make_node(Arguments&&... arguments);

  void adopt(Node* child);
  void forget(Node* child);

  Shell* shell_;
  Node* parent_;
  mutable std::mutex mutex_;
  std::vector<Node*> children_;
  Failure failure_;
};

/// Makes a node and shows it to its parent once it is complete: another thread may visit it from then on.
template <class T, class... Arguments>
T* make_node(Arguments&&... arguments) {
  auto node = std::make_unique<T>(std::forward<Arguments>(arguments)...);
  if (node->parent() != nullptr) node->parent()->adopt(node.get());
  return node.release();
}

/// The node of a handle. Throws Error (invalid_argument) for null, a handle of another kind, or one that was
/// freed.
Node& node_of(const void* handle, Kind kind);

/// The node of a handle of any kind, or null.
Node* any_node_of(const void* handle);

template <class T>
T& open(const void* handle) {
  return static_cast<T&>(node_of(handle, T::kKind));
}

/// Runs the body of a C function on the node of its handle. Nothing is thrown.
template <class T, class Body>
muster_rc with_node(const char* call, const void* handle, Body&& body) noexcept {
  return guarded(call, handle, [&] { body(open<T>(handle)); });
}

/// Runs the body of a C function that gives a result out at `place`, which the body sets; it is null after a
/// failure. `what` names the place.
template <class T, class Result, class Body>
muster_rc giving(const char* call, const void* handle, Result** place, const char* what,
                 Body&& body) noexcept {
  if (place != nullptr) *place = nullptr;
  return with_node<T>(call, handle, [&](T& node) {
    require(place, what);
    body(node);
  });
}

}  // namespace muster::abi
