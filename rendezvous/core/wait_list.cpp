// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/wait_list.hpp"

#include "rendezvous/base/invariant.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <utility>

namespace muster::rendezvous {

std::size_t WaitList::cost(std::string_view key) {
  return key.size() + kPerEntryBytes + sizeof(Waiter::Place);
}

void WaitList::begin(Waiter& waiter, std::size_t capacity) {
  MUSTER_ASSERT(!waiter.waiting(), "a waiter waits once at a time");
  waiter.places_ = std::make_unique<Waiter::Place[]>(capacity);
  waiter.used_ = 0;
  waiter.missing_ = 0;
  waiter.bytes_ = 0;
}

void WaitList::add(Waiter& waiter, std::string_view key) {
  auto found = lists_.find(key);
  if (found == lists_.end()) found = lists_.emplace(std::string(key), Waiter::List{}).first;
  Waiter::List& list = found->second;
  Waiter::Place& place = waiter.places_[waiter.used_++];
  place = {&waiter, list.last, nullptr, &*found};
  (list.last ? list.last->next : list.first) = &place;
  list.last = &place;
  ++waiter.missing_;
  waiter.bytes_ += cost(key);
  bytes_ += cost(key);
}

void WaitList::cancel(Waiter& waiter) {
  if (!waiter.places_) return;
  for (std::size_t i = 0; i < waiter.used_; ++i) take_out(waiter.places_[i]);
  release(waiter);
}

std::vector<std::string_view> WaitList::awaited(const Waiter& waiter, std::size_t most) {
  std::vector<std::string_view> keys;
  for (std::size_t i = 0; i < waiter.used_ && keys.size() < most; ++i)
    if (const auto* entry = waiter.places_[i].entry) keys.emplace_back(entry->first);
  return keys;
}

void WaitList::wake_all_slowly(std::string_view key) {
  const auto found = lists_.find(key);
  if (found == lists_.end()) return;
  // The list is taken out first: count_down may release a waiter's places, even this waiter's.
  Waiter::Place* place = found->second.first;
  lists_.erase(found);
  for (Waiter::Place* each = place; each != nullptr; each = each->next) each->entry = nullptr;
  while (place != nullptr) {
    Waiter& waiter = *place->waiter;
    place = place->next;
    count_down(waiter);
  }
}

void WaitList::wake_one(std::string_view key) {
  if (lists_.empty()) return;
  const auto found = lists_.find(key);
  if (found == lists_.end()) return;
  Waiter::Place& place = *found->second.first;
  take_out(place);
  count_down(*place.waiter);
}

void WaitList::take_out(Waiter::Place& place) {
  if (place.entry == nullptr) return;
  Waiter::List& list = place.entry->second;
  (place.previous ? place.previous->next : list.first) = place.next;
  (place.next ? place.next->previous : list.last) = place.previous;
  if (list.first == nullptr) lists_.erase(lists_.find(std::string_view(place.entry->first)));
  place.entry = nullptr;
}

void WaitList::count_down(Waiter& waiter) {
  MUSTER_ASSERT(waiter.missing_ > 0, "a waiter is told of no more keys than it waits for");
  if (--waiter.missing_ > 0) return;
  release(waiter);
  waiter.wait_over();
}

void WaitList::release(Waiter& waiter) {
  MUSTER_ASSERT(bytes_ >= waiter.bytes_, "the wait list counts the bytes of its waiters");
  bytes_ -= waiter.bytes_;
  waiter.bytes_ = 0;
  waiter.missing_ = 0;
  waiter.used_ = 0;
  waiter.places_.reset();
}

}  // namespace muster::rendezvous
