// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/store.hpp"

#include "rendezvous/base/invariant.hpp"
#include "rendezvous/base/text.hpp"

#include <utility>

namespace muster::rendezvous {
namespace {

// An empty std::deque takes a block of 512 bytes and its map.
constexpr std::size_t kPerQueueBytes = kPerEntryBytes + 768;

// A replaced value gives memory back when it holds more than this and more than four times what it needs.
constexpr std::size_t kSpareBytes = 1024;

std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace

const std::string* Store::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::string* Store::find_value(std::string_view key) {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

StoreStatus Store::create(std::string_view key, std::string&& value) {
  // The capacity is charged: otherwise a short value that keeps a long buffer would cost nothing.
  const std::size_t bytes = key.size() + value.capacity() + kPerEntryBytes;
  if (!room_for(bytes)) return StoreStatus::full;
  values_.emplace(std::string(key), std::move(value));
  bytes_ += bytes;
  key_bytes_ += key.size();
  return StoreStatus::ok;
}

bool Store::replace(std::string& stored, std::string_view value) {
  if (value.size() > stored.capacity() && !room_for(value.size(), stored.capacity())) return false;
  bytes_ -= stored.capacity();
  if (stored.capacity() > kSpareBytes && stored.capacity() / 4 > value.size()) {
    std::string(value).swap(stored);  // an assignment would copy a short text into the long buffer
  } else {
    stored.assign(value);
  }
  bytes_ += stored.capacity();
  return true;
}

StoreStatus Store::set(std::string_view key, std::string_view value) {
  if (std::string* stored = find_value(key)) {
    if (!replace(*stored, value)) return StoreStatus::full;
  } else {
    if (!room_for(key.size() + value.size() + kPerEntryBytes)) return StoreStatus::full;
    if (create(key, std::string(value)) != StoreStatus::ok) return StoreStatus::full;
  }
  waits_.wake_all(key);
  return StoreStatus::ok;
}

StoreStatus Store::set(std::string_view key, std::string&& value) {
  if (std::string* stored = find_value(key)) {
    if (!room_for(value.capacity(), stored->capacity())) return StoreStatus::full;
    bytes_ += value.capacity();
    bytes_ -= stored->capacity();
    stored->swap(value);
  } else if (create(key, std::move(value)) != StoreStatus::ok) {
    return StoreStatus::full;
  }
  waits_.wake_all(key);
  return StoreStatus::ok;
}

StoreStatus Store::append(std::string_view key, std::string_view value) {
  std::string* stored = find_value(key);
  if (stored == nullptr) return set(key, value);
  const std::size_t before = stored->capacity();
  const std::size_t size = stored->size() + value.size();
  // A string doubles when it grows, and its doubled size is charged, so the doubled size must fit.
  if (size > before && !room_for(2 * size, before)) return StoreStatus::full;
  stored->append(value);
  bytes_ += stored->capacity() - before;
  waits_.wake_all(key);
  return StoreStatus::ok;
}

Store::Compared Store::compare_set(std::string_view key, std::string_view expected,
                                   std::string_view desired) {
  std::string* stored = find_value(key);
  if (stored == nullptr) {
    if (!expected.empty()) return {StoreStatus::ok, expected};
    return {set(key, desired), desired};
  }
  if (*stored == expected) return {set(key, desired), desired};
  waits_.wake_all(key);
  return {StoreStatus::ok, *stored};
}

StoreStatus Store::put_number(std::string_view key, std::string* stored, std::int64_t number) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  const std::string_view digits(text, static_cast<std::size_t>(end - text));
  if (stored == nullptr) return create(key, std::string(digits));
  return replace(*stored, digits) ? StoreStatus::ok : StoreStatus::full;
}

Store::Sum Store::add(std::string_view key, std::int64_t delta) {
  std::string* stored = find_value(key);
  const auto before = stored == nullptr ? 0 : leading_number(*stored);
  if (!before) return {StoreStatus::not_a_number, 0};
  const std::int64_t sum = wrapping_sum(*before, delta);
  const StoreStatus status = put_number(key, stored, sum);
  if (status == StoreStatus::ok) waits_.wake_all(key);
  return {status, sum};
}

bool Store::erase(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  const std::size_t bytes = key.size() + found->second.capacity() + kPerEntryBytes;
  MUSTER_ASSERT(bytes <= bytes_, "the store counts the bytes of its keys");
  bytes_ -= bytes;
  key_bytes_ -= key.size();
  values_.erase(found);
  return true;
}

bool Store::present(std::string_view key) const {
  return values_.find(key) != values_.end() || (!queues_.empty() && queues_.find(key) != queues_.end());
}

StoreStatus Store::queue_push(std::string_view key, std::string&& value) {
  auto found = queues_.find(key);
  std::size_t bytes = value.capacity() + kPerEntryBytes;
  if (found == queues_.end()) bytes += key.size() + kPerQueueBytes;
  if (!room_for(bytes)) return StoreStatus::full;
  if (found == queues_.end()) found = queues_.try_emplace(std::string(key)).first;
  found->second.push_back(std::move(value));
  bytes_ += bytes;
  waits_.wake_one(key);
  return StoreStatus::ok;
}

std::optional<std::string> Store::queue_pop(std::string_view key, std::size_t& length_before) {
  const auto found = queues_.find(key);
  length_before = found == queues_.end() ? 0 : found->second.size();
  if (length_before == 0) return std::nullopt;
  const std::size_t charged = found->second.front().capacity();
  std::string item = std::move(found->second.front());
  found->second.pop_front();
  MUSTER_ASSERT(charged + kPerEntryBytes <= bytes_, "the store counts the bytes of its queues");
  bytes_ -= charged + kPerEntryBytes;
  if (length_before == 1) {
    bytes_ -= key.size() + kPerQueueBytes;
    queues_.erase(found);  // the entry is erased, so that every entry is a queue with items
  }
  return item;
}

std::size_t Store::queue_length(std::string_view key) const {
  const auto found = queues_.find(key);
  return found == queues_.end() ? 0 : found->second.size();
}

StoreStatus Store::wait(Waiter& waiter, std::span<const std::string_view> keys) {
  std::size_t missing = 0;
  std::size_t bytes = 0;
  for (const std::string_view key : keys) {
    if (present(key)) continue;
    ++missing;
    bytes += WaitList::cost(key);
  }
  if (missing == 0) return StoreStatus::ok;
  if (!room_for(bytes)) return StoreStatus::full;
  waits_.begin(waiter, missing);
  for (const std::string_view key : keys) {
    if (!present(key)) waits_.add(waiter, key);
  }
  return StoreStatus::ok;
}

StoreStatus Store::barrier(Waiter& waiter, std::string_view key, std::int64_t world_size) {
  std::string* stored = find_value(key);
  const auto before = stored == nullptr ? 0 : leading_number(*stored);
  if (!before) return StoreStatus::not_a_number;
  const std::int64_t count = wrapping_sum(*before, 1);
  if (!room_for(WaitList::cost(key))) return StoreStatus::full;
  if (put_number(key, stored, count) != StoreStatus::ok) return StoreStatus::full;
  if (count >= world_size) {
    waits_.wake_all(key);
    return StoreStatus::ok;
  }
  waits_.begin(waiter, 1);
  waits_.add(waiter, key);
  return StoreStatus::ok;
}

void Store::clear() {
  values_ = {};
  queues_ = {};
  bytes_ = 0;
  key_bytes_ = 0;
}

}  // namespace muster::rendezvous
