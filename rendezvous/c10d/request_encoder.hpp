// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/c10d/wire.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace muster::rendezvous::c10d {

/// Appends requests to a string that the caller sends. Checks no limits: a client should compare with
/// rendezvous/protocol/limits.hpp first, since a server closes the connection on a request beyond them.
/// Not for more than one thread at a time. In the legacy dialect only set, compare_set, get, add, check,
/// wait, num_keys and delete_key exist (the others would be read as something else; do not call them).
class RequestEncoder {
 public:
  explicit RequestEncoder(std::string& out, Dialect dialect = Dialect::modern)
      : out_(out), dialect_(dialect) {}

  /// First request of a modern connection; has no reply.
  void validate();
  /// Reply: the nonce (u32).
  void ping(std::uint32_t nonce);
  /// No reply.
  void set(std::string_view key, std::string_view value);
  /// Reply: the value afterwards, as bytes.
  void compare_set(std::string_view key, std::string_view expected, std::string_view desired);
  /// Reply: the value, as bytes; empty for a missing key, so wait first.
  void get(std::string_view key);
  /// Reply: i64, the sum.
  void add(std::string_view key, std::int64_t delta);
  /// Reply: u8, kAllPresent or kNotAllPresent.
  void check(std::span<const std::string> keys);
  /// Reply: u8 kStopWaiting when all keys exist.
  void wait(std::span<const std::string> keys);
  void wait(std::string_view key);
  /// Reply: i64.
  void num_keys();
  /// Reply: i64, 1 if the key was there.
  void delete_key(std::string_view key);
  /// No reply.
  void append(std::string_view key, std::string_view value);
  /// Reply: one bytes per key.
  void multi_get(std::span<const std::string> keys);
  /// No reply.
  void multi_set(std::span<const std::pair<std::string, std::string>> pairs);
  /// Reply: u8 kWaitCancelled, after a kStopWaiting if the wait had just ended.
  void cancel_wait();
  /// No reply.
  void queue_push(std::string_view key, std::string_view value);
  /// Reply: i64 length before the pop; if that is > 0, bytes.
  void queue_pop(std::string_view key);
  /// Reply: i64.
  void queue_len(std::string_view key);
  /// Reply: i64 count, then as many strings.
  void list_keys();
  /// Reply: u8 kStopWaiting when `world_size` calls were made.
  void barrier(std::string_view key, std::int64_t world_size);

 private:
  void op(Op operation);
  void keys(Op operation, std::span<const std::string> keys);

  std::string& out_;
  Dialect dialect_;
};

}  // namespace muster::rendezvous::c10d
