// SPDX-License-Identifier: Apache-2.0
#include "muster/abi/store.h"

#include "worker_sdk/abi/failure.hpp"
#include "worker_sdk/abi/nodes.hpp"
#include "worker_sdk/abi/options.hpp"
#include "worker_sdk/store/tcp_store.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace muster::abi {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnectDeadline = std::chrono::minutes(5);

StoreNode& open_store(muster_store* store, const char* key) {
  StoreNode& node = open<StoreNode>(store);
  require(key, "the key");
  return node;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

using Value = std::unique_ptr<void, Free>;

/// A copy of `text`, ended by a 0, in memory that muster_free() frees.
Value copy_of(std::string_view text) {
  Value copy(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy.get(), text.data(), text.size());
  static_cast<char*>(copy.get())[text.size()] = '\0';
  return copy;
}

void give_out(std::string_view text, void** value, std::uint64_t* bytes) {
  *value = copy_of(text).release();
  if (bytes != nullptr) *bytes = text.size();
}

std::string_view value_of(const void* value, std::uint64_t bytes) {
  // A length that no store takes: a larger one was probably never set.
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40;
  if (bytes > kMaxBytes)
    throw Error(ErrorCode::invalid_argument,
                "a value of " + std::to_string(bytes) + " bytes is more than a store takes");
  if (bytes > 0) require(value, "the value");
  return {static_cast<const char*>(value), bytes};
}

std::vector<std::string> keys_of(const char* const* keys, std::uint32_t count) {
  if (count == 0) throw Error(ErrorCode::invalid_argument, "the list of keys is empty; give one at least");
  require(keys, "the list of keys");
  std::vector<std::string> names;
  names.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    require(keys[i], "a key");
    names.emplace_back(keys[i]);
  }
  return names;
}

}  // namespace
}  // namespace muster::abi

using namespace muster::abi;

extern "C" {

muster_rc muster_store_world(muster_world* world, muster_store** store) {
  return give_kept(__func__, world, store, "the place for the store", &WorldNode::store, [](WorldNode& node) {
    return make_node<StoreNode>(&node, node.world->store(), nullptr, node.timeout);
  });
}

muster_rc muster_store_connect(const char* host, int32_t port, int64_t deadline_ms, muster_store** store) {
  if (store != nullptr) *store = nullptr;
  return guarded(__func__, nullptr, [&] {
    require(store, "the place for the store");
    require(host, "the host");
    if (port < 1 || port > 65535)
      throw muster::Error(muster::ErrorCode::invalid_argument,
                          "port " + std::to_string(port) + " of the store is outside 1..65535");
    muster::StoreOptions options;
    options.timeout = read_deadline(deadline_ms, kConnectDeadline);
    auto made = muster::connect_store(host, port, options);
    muster::StoreClient& client = *made;
    *store = handle_of<muster_store>(make_node<StoreNode>(nullptr, client, std::move(made), options.timeout));
  });
}

muster_rc muster_store_clone(muster_store* store, muster_store** clone) {
  return giving<StoreNode>(__func__, store, clone, "the place for the clone", [&](StoreNode& node) {
    auto made = node.store.clone();
    muster::StoreClient& client = *made;
    Node* const parent = node.parent();
    *clone = handle_of<muster_store>(make_node<StoreNode>(parent, client, std::move(made), node.timeout));
  });
}

muster_rc muster_store_free(muster_store* store) {
  return free_owned<StoreNode>(__func__, store, "the store of a world belongs to it");
}

muster_rc muster_store_set(muster_store* store, const char* key, const void* value, uint64_t bytes) {
  return guarded(__func__, store, [&] { open_store(store, key).store.set(key, value_of(value, bytes)); });
}

muster_rc muster_store_get(muster_store* store, const char* key, int64_t deadline_ms, void** value,
                           uint64_t* bytes) {
  return guarded(__func__, store, [&] {
    StoreNode& node = open_store(store, key);
    require(value, "the place for the value");
    give_out(node.store.get(key, read_deadline(deadline_ms, node.timeout)), value, bytes);
  });
}

muster_rc muster_store_add(muster_store* store, const char* key, int64_t delta, int64_t* sum) {
  return guarded(__func__, store, [&] {
    const std::int64_t after = open_store(store, key).store.add(key, delta);
    if (sum != nullptr) *sum = after;
  });
}

muster_rc muster_store_compare_set(muster_store* store, const char* key, const void* expected,
                                   uint64_t expected_bytes, const void* desired, uint64_t desired_bytes,
                                   void** value, uint64_t* bytes) {
  return guarded(__func__, store, [&] {
    StoreNode& node = open_store(store, key);
    const std::string after =
        node.store.compare_set(key, value_of(expected, expected_bytes), value_of(desired, desired_bytes));
    if (value != nullptr) return give_out(after, value, bytes);
    if (bytes != nullptr) *bytes = after.size();
  });
}

muster_rc muster_store_wait(muster_store* store, const char* const* keys, uint32_t count,
                            int64_t deadline_ms) {
  return with_node<StoreNode>(__func__, store, [&](StoreNode& node) {
    node.store.wait(keys_of(keys, count), read_deadline(deadline_ms, node.timeout));
  });
}

muster_rc muster_store_check(muster_store* store, const char* const* keys, uint32_t count, int32_t* exist) {
  return with_node<StoreNode>(__func__, store, [&](StoreNode& node) {
    require(exist, "the place for the answer");
    *exist = node.store.check(keys_of(keys, count)) ? 1 : 0;
  });
}

muster_rc muster_store_delete(muster_store* store, const char* key, int32_t* deleted) {
  return guarded(__func__, store, [&] {
    const bool existed = open_store(store, key).store.delete_key(key);
    if (deleted != nullptr) *deleted = existed ? 1 : 0;
  });
}

muster_rc muster_store_append(muster_store* store, const char* key, const void* value, uint64_t bytes) {
  return guarded(__func__, store, [&] { open_store(store, key).store.append(key, value_of(value, bytes)); });
}

muster_rc muster_store_multi_set(muster_store* store, const char* const* keys, const void* const* values,
                                 const uint64_t* bytes, uint32_t count) {
  return with_node<StoreNode>(__func__, store, [&](StoreNode& node) {
    const std::vector<std::string> names = keys_of(keys, count);
    require(values, "the list of values");
    require(bytes, "the list of lengths");
    std::vector<std::pair<std::string, std::string>> pairs;
    pairs.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) pairs.emplace_back(names[i], value_of(values[i], bytes[i]));
    node.store.multi_set(pairs);
  });
}

muster_rc muster_store_multi_get(muster_store* store, const char* const* keys, uint32_t count,
                                 int64_t deadline_ms, void** values, uint64_t* bytes) {
  return with_node<StoreNode>(__func__, store, [&](StoreNode& node) {
    const std::vector<std::string> names = keys_of(keys, count);
    require(values, "the place for the values");
    require(bytes, "the place for the lengths");
    // A server tells only that some key is missing, so this waits for all of them; the wait has a deadline.
    node.store.wait(names, read_deadline(deadline_ms, node.timeout));
    const std::vector<std::string> found = node.store.multi_get(names);
    std::vector<Value> made;
    made.reserve(found.size());
    for (const std::string& value : found) made.push_back(copy_of(value));
    for (std::size_t i = 0; i < found.size() && i < count; ++i) {
      values[i] = made[i].release();
      bytes[i] = found[i].size();
    }
  });
}

muster_rc muster_store_queue_push(muster_store* store, const char* key, const void* value, uint64_t bytes) {
  return guarded(__func__, store,
                 [&] { open_store(store, key).store.queue_push(key, value_of(value, bytes)); });
}

muster_rc muster_store_queue_pop(muster_store* store, const char* key, int64_t deadline_ms, void** value,
                                 uint64_t* bytes) {
  return guarded(__func__, store, [&] {
    StoreNode& node = open_store(store, key);
    require(value, "the place for the value");
    give_out(node.store.queue_pop(key, read_deadline(deadline_ms, node.timeout)), value, bytes);
  });
}

muster_rc muster_store_queue_length(muster_store* store, const char* key, uint64_t* length) {
  return guarded(__func__, store, [&] {
    StoreNode& node = open_store(store, key);
    require(length, "the place for the length");
    *length = static_cast<std::uint64_t>(node.store.queue_len(key));
  });
}

muster_rc muster_store_list(muster_store* store, const char* prefix, char** keys, uint64_t* count) {
  return with_node<StoreNode>(__func__, store, [&](StoreNode& node) {
    require(keys, "the place for the keys");
    require(count, "the place for the number of keys");
    const std::string_view begin = prefix == nullptr ? std::string_view() : prefix;
    std::vector<std::string> names = node.store.list_keys();
    std::erase_if(names, [begin](const std::string& name) { return !name.starts_with(begin); });
    std::sort(names.begin(), names.end());
    std::string block;
    for (const std::string& name : names) block.append(name.c_str(), name.size() + 1);
    *keys = static_cast<char*>(copy_of(block).release());
    *count = names.size();
  });
}
}
