// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/store/prefix_store.hpp"

namespace muster {

std::vector<std::string> PrefixStore::full(const std::vector<std::string>& keys) const {
  std::vector<std::string> result;
  result.reserve(keys.size());
  for (const std::string& key : keys) result.push_back(full(key));
  return result;
}

void PrefixStore::set(std::string_view key, std::string_view value) {
  store_.set(full(key), value);
}

std::string PrefixStore::get(std::string_view key) {
  return store_.get(full(key));
}

std::string PrefixStore::get(std::string_view key, std::chrono::milliseconds timeout) {
  return store_.get(full(key), timeout);
}

std::int64_t PrefixStore::add(std::string_view key, std::int64_t delta) {
  return store_.add(full(key), delta);
}

std::string PrefixStore::compare_set(std::string_view key, std::string_view expected,
                                     std::string_view desired) {
  return store_.compare_set(full(key), expected, desired);
}

bool PrefixStore::check(const std::vector<std::string>& keys) {
  return store_.check(full(keys));
}

void PrefixStore::wait(const std::vector<std::string>& keys) {
  store_.wait(full(keys));
}

void PrefixStore::wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) {
  store_.wait(full(keys), timeout);
}

bool PrefixStore::wait_or_wake(const std::vector<std::string>& keys, int descriptor,
                               std::chrono::milliseconds timeout) {
  return store_.wait_or_wake(full(keys), descriptor, timeout);
}

bool PrefixStore::delete_key(std::string_view key) {
  return store_.delete_key(full(key));
}

void PrefixStore::append(std::string_view key, std::string_view value) {
  store_.append(full(key), value);
}

std::vector<std::string> PrefixStore::multi_get(const std::vector<std::string>& keys) {
  return store_.multi_get(full(keys));
}

void PrefixStore::multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::vector<std::pair<std::string, std::string>> entries;
  entries.reserve(pairs.size());
  for (const auto& [key, value] : pairs) entries.emplace_back(full(key), value);
  store_.multi_set(entries);
}

void PrefixStore::queue_push(std::string_view queue, std::string_view value) {
  store_.queue_push(full(queue), value);
}

std::string PrefixStore::queue_pop(std::string_view queue, std::chrono::milliseconds timeout) {
  return store_.queue_pop(full(queue), timeout);
}

std::int64_t PrefixStore::queue_len(std::string_view queue) {
  return store_.queue_len(full(queue));
}

std::vector<std::string> PrefixStore::list_keys() {
  std::vector<std::string> names;
  for (const std::string& name : store_.list_keys())
    if (name.starts_with(prefix_)) names.push_back(name.substr(prefix_.size()));
  return names;
}

std::int64_t PrefixStore::num_keys() {
  return store_.num_keys();
}

std::unique_ptr<StoreClient> PrefixStore::clone() {
  return std::make_unique<PrefixStore>(store_.clone(), prefix_);
}

}  // namespace muster
