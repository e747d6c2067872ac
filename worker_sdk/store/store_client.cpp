// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/store/store_client.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/text.hpp"

#include <poll.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

namespace muster {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// The times before the first look and between later ones, at most. Ranks that come together within the first
/// need not look, and a long wait asks the store rarely.
constexpr milliseconds kFirstLook{100};
constexpr milliseconds kLastLook{1000};

struct Values {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string, std::less<>> map;
  std::map<std::string, std::deque<std::string>, std::less<>> queues;  ///< none of the queues is empty
};

/// The number at the beginning of a value, as every store of this protocol reads it.
std::int64_t number_of(std::string_view key, std::string_view value) {
  if (const auto number = leading_number(value)) return *number;
  throw Error(ErrorCode::store, "add at the store of a world of one: the value of '" + std::string(key) +
                                    "' is no number; add to keys that only add() writes");
}

class LocalStore final : public StoreClient {
 public:
  explicit LocalStore(std::shared_ptr<Values> values) : values_(std::move(values)) {}

  void set(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(values_->mutex);
    values_->map.insert_or_assign(std::string(key), std::string(value));
    values_->changed.notify_all();
  }

  std::string get(std::string_view key) override { return get(key, timeout_); }

  std::string get(std::string_view key, WaitLimit limit) override {
    std::unique_lock lock(values_->mutex);
    const auto there = [&] { return values_->map.find(key) != values_->map.end(); };
    if (!values_->changed.wait_for(lock, std::min(limit.left, kLongest), there)) throw_late(key, limit.given);
    return values_->map.find(key)->second;
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    const std::lock_guard lock(values_->mutex);
    const auto found = values_->map.find(key);
    const std::int64_t before = found == values_->map.end() ? 0 : number_of(key, found->second);
    const auto sum =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(before) + static_cast<std::uint64_t>(delta));
    values_->map.insert_or_assign(std::string(key), std::to_string(sum));
    values_->changed.notify_all();
    return sum;
  }

  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override {
    const std::lock_guard lock(values_->mutex);
    const auto found = values_->map.find(key);
    if (found == values_->map.end() && !expected.empty()) return std::string(expected);
    if (found != values_->map.end() && found->second != expected) return found->second;
    values_->map[std::string(key)] = desired;
    values_->changed.notify_all();
    return std::string(desired);
  }

  bool check(const std::vector<std::string>& keys) override {
    const std::lock_guard lock(values_->mutex);
    return has(keys);
  }

  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }

  void wait(const std::vector<std::string>& keys, WaitLimit limit) override {
    std::unique_lock lock(values_->mutex);
    if (values_->changed.wait_for(lock, std::min(limit.left, kLongest), [&] { return has(keys); })) return;
    for (const std::string& key : keys)
      if (!has({key})) throw_late(key, limit.given);
  }

  bool delete_key(std::string_view key) override {
    const std::lock_guard lock(values_->mutex);
    return values_->map.erase(std::string(key)) > 0;
  }

  void append(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(values_->mutex);
    values_->map[std::string(key)] += value;
    values_->changed.notify_all();
  }

  std::vector<std::string> multi_get(const std::vector<std::string>& keys) override {
    std::vector<std::string> values;
    values.reserve(keys.size());
    for (const std::string& key : keys) values.push_back(get(key));
    return values;
  }

  void multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) override {
    for (const auto& [key, value] : pairs) set(key, value);
  }

  void queue_push(std::string_view queue, std::string_view value) override {
    const std::lock_guard lock(values_->mutex);
    values_->queues[std::string(queue)].emplace_back(value);
    values_->changed.notify_all();
  }

  std::string queue_pop(std::string_view queue, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(values_->mutex);
    const auto there = [&] { return values_->queues.find(queue) != values_->queues.end(); };
    if (!values_->changed.wait_for(lock, std::min(timeout, kLongest), there)) throw_late(queue, timeout);
    const auto found = values_->queues.find(queue);
    std::string value = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) values_->queues.erase(found);
    return value;
  }

  std::int64_t queue_len(std::string_view queue) override {
    const std::lock_guard lock(values_->mutex);
    const auto found = values_->queues.find(queue);
    return found == values_->queues.end() ? 0 : static_cast<std::int64_t>(found->second.size());
  }

  std::vector<std::string> list_keys() override {
    const std::lock_guard lock(values_->mutex);
    std::vector<std::string> keys;
    for (const auto& [key, value] : values_->map) keys.push_back(key);
    return keys;
  }

  std::int64_t num_keys() override {
    const std::lock_guard lock(values_->mutex);
    return static_cast<std::int64_t>(values_->map.size());
  }

  void set_timeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }

  std::unique_ptr<StoreClient> clone() override {
    auto other = std::make_unique<LocalStore>(values_);
    other->set_timeout(timeout_);
    return other;
  }

 private:
  /// The longest wait; longer ones would overflow the clock.
  static constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);

  [[noreturn]] static void throw_late(std::string_view key, std::chrono::milliseconds timeout) {
    throw Error(ErrorCode::deadline, "waited " + std::to_string(timeout.count()) + " ms for the key '" +
                                         std::string(key) +
                                         "' in a world of one; only its own threads can set it");
  }

  bool has(const std::vector<std::string>& keys) const {
    for (const std::string& key : keys)
      if (values_->map.count(key) == 0 && values_->queues.count(key) == 0) return false;
    return true;
  }

  std::chrono::milliseconds timeout_ = std::chrono::minutes(5);
  std::shared_ptr<Values> values_;
};

}  // namespace

bool StoreClient::wait_or_wake(const std::vector<std::string>& keys, int descriptor, milliseconds timeout) {
  constexpr milliseconds kSlice{50};
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    pollfd entry{descriptor, POLLIN, 0};
    if (poll(&entry, 1, 0) > 0 || Clock::now() >= deadline) return false;
    try {
      wait(keys, std::min(kSlice, timeout));
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::deadline) throw;
    }
  }
}

void wait_and_look(StoreClient& store, const std::vector<std::string>& keys, milliseconds limit,
                   const std::function<void()>& look) {
  const auto deadline = Clock::now() + limit;
  for (milliseconds slice = kFirstLook;; slice = std::min(slice * 2, kLastLook)) {
    const milliseconds left = left_until(deadline);
    try {
      // The error of the last part is thrown as that of the whole wait.
      return store.wait(keys, left <= slice ? WaitLimit(left, limit) : WaitLimit(slice));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::deadline || left <= slice || store.is_silent()) throw;
    }
    try {
      look();
    } catch (const Error&) {
      if (!store.check(keys)) throw;
    }
  }
}

std::unique_ptr<StoreClient> make_local_store() {
  return std::make_unique<LocalStore>(std::make_shared<Values>());
}

}  // namespace muster
