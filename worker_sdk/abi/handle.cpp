// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/abi/handle.hpp"

#include "muster/error.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <new>
#include <utility>

namespace muster::abi {
namespace {

/// The number of free shells that wait in a queue before they are used again, so that a stale handle meets a
/// free shell and not another object's.
constexpr std::size_t kQuarantine = 1024;
constexpr std::size_t kBlockBytes = std::size_t{1} << 16;

class ShellPool {
 public:
  Shell* take() {
    const std::lock_guard lock(mutex_);
    if (free_.size() <= kQuarantine) add_block();
    Shell* const shell = free_.front();
    free_.pop_front();
    return shell;
  }

  void give_back(Shell* shell) {
    const std::lock_guard lock(mutex_);
    free_.push_back(shell);
  }

 private:
  void add_block() {
    void* const memory =
        mmap(nullptr, kBlockBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    madvise(memory, kBlockBytes, MADV_WIPEONFORK);
    Shell* const shells = static_cast<Shell*>(memory);
    // New shells go to the front, so that the oldest free shells stay in quarantine.
    for (std::size_t i = kBlockBytes / sizeof(Shell); i-- > 0;) free_.push_front(new (shells + i) Shell{});
  }

  std::mutex mutex_;
  std::deque<Shell*> free_;
};

/// The one pool of the process. It is never destroyed, since handles may be used until the end of a program,
/// and it holds no data of any world.
ShellPool& shells() {
  static ShellPool* const pool = new ShellPool();
  return *pool;
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"world", "group", "work", "store", "reducer", "learner"};
  const auto index = static_cast<std::size_t>(kind) - static_cast<std::size_t>(Kind::world);
  return index < std::size(kNames) ? kNames[index] : "freed";
}

Node::Node(Kind kind, Node* parent) : shell_(shells().take()), parent_(parent) {
  shell_->node.store(this, std::memory_order_relaxed);
  shell_->kind.store(kind, std::memory_order_release);
}

void Node::remember(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  failure_ = failure;
}

Failure Node::last_failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Node::adopt(Node* child) {
  const std::lock_guard lock(mutex_);
  children_.push_back(child);
}

void Node::forget(Node* child) {
  const std::lock_guard lock(mutex_);
  // Works are freed young, so the search from the end is short.
  const auto found = std::find(children_.rbegin(), children_.rend(), child);
  if (found != children_.rend()) children_.erase(std::next(found).base());
}

Node::~Node() {
  shell_->kind.store(Kind::none, std::memory_order_release);
  shell_->node.store(nullptr, std::memory_order_relaxed);
  shells().give_back(shell_);
}

void Node::release(Node* node) {
  node->shell_->kind.store(Kind::none, std::memory_order_release);
  for (;;) {
    Node* youngest = nullptr;
    {
      const std::lock_guard lock(node->mutex_);
      if (node->children_.empty()) break;
      youngest = node->children_.back();
    }
    release(youngest);
  }
  // The node leaves its parent before any part of it is destroyed, because a thread that visits the parent's
  // children must not meet a half-destroyed node.
  if (node->parent_ != nullptr) node->parent_->forget(node);
  delete node;
}

Node* any_node_of(const void* handle) {
  const auto* shell = static_cast<const Shell*>(handle);
  const Kind kind = shell->kind.load(std::memory_order_acquire);
  return kind < Kind::world || kind > Kind::learner ? nullptr : shell->node.load(std::memory_order_relaxed);
}

Node& node_of(const void* handle, Kind kind) {
  const std::string what = name_of(kind);
  if (handle == nullptr)
    throw Error(ErrorCode::invalid_argument,
                "the " + what + " is NULL; give the handle that was made for it");
  const auto* shell = static_cast<const Shell*>(handle);
  const Kind found = shell->kind.load(std::memory_order_acquire);
  if (found == kind) return *shell->node.load(std::memory_order_relaxed);
  if (found >= Kind::world && found <= Kind::learner)
    throw Error(ErrorCode::invalid_argument,
                "the " + what + " is a " + name_of(found) + "; give the handle that was made for it");
  throw Error(ErrorCode::invalid_argument,
              "the " + what + " was freed, or this process was forked after it was made; make a new one");
}

}  // namespace muster::abi
