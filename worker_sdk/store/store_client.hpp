// SPDX-License-Identifier: Apache-2.0
// A client of the job's key-value store (PyTorch's TCPStore protocol, so it works under torchrun as well).
#pragma once

#include "muster/error.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

/// The time that a call may wait. Its error names `given`: if the call is part of a longer wait, that is the
/// limit of the longer wait, which the user knows, and not the time that was left of it.
struct WaitLimit {
  template <typename Number, typename Unit>
  WaitLimit(std::chrono::duration<Number, Unit> time) : left(time), given(time) {}

  WaitLimit(std::chrono::milliseconds part, std::chrono::milliseconds whole) : left(part), given(whole) {}

  std::chrono::milliseconds left;
  std::chrono::milliseconds given;
};

/// Keys and values shared by the ranks of one round. One connection; one thread at a time (clone() for
/// another). Keys are stored as PyTorch's TCPStore stores them ("/" is put before each), so both see the same
/// data. Errors: muster::Error with code deadline (the text names the keys waited for) or store (connection
/// lost).
class StoreClient {
 public:
  virtual ~StoreClient() = default;
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Waits until the key exists.
  virtual std::string get(std::string_view key) = 0;
  virtual std::string get(std::string_view key, WaitLimit limit) = 0;
  /// Adds to the decimal number at `key` (missing counts as 0); returns the sum.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;
  /// Stores `desired` if the value equals `expected` (an empty `expected` also matches a missing key).
  /// Returns the value afterwards; for a missing key and a non-empty `expected` it returns `expected`
  /// (PyTorch's rule).
  virtual std::string compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired) = 0;
  virtual bool check(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, WaitLimit limit) = 0;

  /// Waits as wait() does, on a thread that others must be able to wake. Returns whether the keys exist;
  /// false as soon as `descriptor` is readable, or after `timeout`.
  virtual bool wait_or_wake(const std::vector<std::string>& keys, int descriptor,
                            std::chrono::milliseconds timeout);

  virtual bool delete_key(std::string_view key) = 0;
  virtual void append(std::string_view key, std::string_view value) = 0;
  /// Waits until all keys exist, and returns their values in the order of `keys`.
  virtual std::vector<std::string> multi_get(const std::vector<std::string>& keys) = 0;
  virtual void multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) = 0;
  /// Adds an item to a queue. Queues have names of their own beside the keys; wait() and check() see a queue
  /// that is not empty. PyTorch's store has them in its libuv server.
  virtual void queue_push(std::string_view queue, std::string_view value) = 0;
  /// Waits until there is an item and takes it; the first item that was added comes first.
  virtual std::string queue_pop(std::string_view queue, std::chrono::milliseconds timeout) = 0;
  virtual std::int64_t queue_len(std::string_view queue) = 0;
  /// The names of all keys, in no order. A PyTorch store older than torch 2.9 closes the connection.
  virtual std::vector<std::string> list_keys() = 0;
  /// The number of keys of every prefix, PyTorch's own worker counter included.
  virtual std::int64_t num_keys() = 0;

  /// The numeric address of this host on the way to the store; "" when unknown.
  virtual std::string local_address() const { return ""; }

  /// Sets StoreOptions::timeout for later calls and clones.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;

  /// Whether the store has owed an answer since a wait ended: then it is overloaded, stopped or unreachable,
  /// and the next call waits for the answer.
  virtual bool is_silent() const { return false; }

  /// A second connection to the same store, for another thread, which may make it while this one is in use.
  virtual std::unique_ptr<StoreClient> clone() = 0;

  /// Makes a second connection as clone() does, but connecting takes at most `limit`, and, except during the
  /// look-up of a name, ends as soon as `descriptor` (-1: none) is readable.
  virtual std::unique_ptr<StoreClient> clone_within(std::chrono::milliseconds /*limit*/, int /*descriptor*/) {
    return clone();
  }

 protected:
  StoreClient() = default;
};

struct StoreOptions {
  /// The longest time for connecting, and for each wait. Default: 5 minutes, as PyTorch.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// The longest time for connecting alone. Default: `timeout`.
  std::optional<WaitLimit> connect_timeout = std::nullopt;
  /// The first delay between attempts to connect. Default: 0.5 s, as PyTorch; less if the server is a rank
  /// that starts at the same time.
  std::chrono::milliseconds first_delay = std::chrono::milliseconds(500);
  /// The longest delay between attempts to connect. Default: 60 s, as PyTorch.
  std::chrono::milliseconds longest_delay = std::chrono::seconds(60);
};

/// Makes a store inside this process, for a world of one rank that has no other.
std::unique_ptr<StoreClient> make_local_store();

/// Waits for the keys and calls `look` in between, which throws Error if they will not come: 0.1 s after the
/// beginning, then less and less often, at last once a second. Throws as StoreClient::wait() or as `look`;
/// but keys that exist count, because a rank that is gone may have set them before.
void wait_and_look(StoreClient& store, const std::vector<std::string>& keys, std::chrono::milliseconds limit,
                   const std::function<void()>& look);

}  // namespace muster
