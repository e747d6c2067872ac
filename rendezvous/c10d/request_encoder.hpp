// SPDX-License-Identifier: Apache-2.0
// Writes the requests of PyTorch's store protocol, for clients.
#pragma once

#include "rendezvous/c10d/wire.hpp"

#include <concepts>
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

  /// Opens a modern connection: it must be the first request. No reply.
  void validate() { request(Op::validate, kValidateMagic); }

  /// Reply: the nonce (u32).
  void ping(std::uint32_t nonce) { request(Op::ping, nonce); }

  /// No reply.
  void set(std::string_view key, std::string_view value) { request(Op::set, key, value); }

  /// Reply: the value afterwards, as bytes.
  void compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
    request(Op::compare_set, key, expected, desired);
  }

  /// Reply: the value, as bytes; empty for a missing key, so wait first.
  void get(std::string_view key) { request(Op::get, key); }

  /// Reply: i64, the sum.
  void add(std::string_view key, std::int64_t delta) { request(Op::add, key, delta); }

  /// Reply: u8, kAllPresent or kNotAllPresent.
  void check(std::span<const std::string> keys) { request(Op::check, keys); }

  /// Reply: u8 kStopWaiting when all keys exist.
  void wait(std::span<const std::string> keys) { request(Op::wait, keys); }

  void wait(std::string_view key) { request(Op::wait, std::uint64_t{1}, key); }

  /// Reply: i64.
  void num_keys() { request(Op::get_num_keys); }

  /// Reply: i64, 1 if the key was there.
  void delete_key(std::string_view key) { request(Op::delete_key, key); }

  /// No reply.
  void append(std::string_view key, std::string_view value) { request(Op::append, key, value); }

  /// Reply: one bytes per key.
  void multi_get(std::span<const std::string> keys) { request(Op::multi_get, keys); }

  /// No reply.
  void multi_set(std::span<const std::pair<std::string, std::string>> pairs) {
    request(Op::multi_set, pairs);
  }

  /// Reply: u8 kWaitCancelled, after a kStopWaiting if the wait had just ended.
  void cancel_wait() { request(Op::cancel_wait); }

  /// No reply.
  void queue_push(std::string_view key, std::string_view value) { request(Op::queue_push, key, value); }

  /// Reply: i64 length before the pop; if that is > 0, bytes.
  void queue_pop(std::string_view key) { request(Op::queue_pop, key); }

  /// Reply: i64.
  void queue_len(std::string_view key) { request(Op::queue_len, key); }

  /// Reply: i64 count, then as many strings.
  void list_keys() { request(Op::list_keys); }

  /// Reply: u8 kStopWaiting when `world_size` calls were made.
  void barrier(std::string_view key, std::int64_t world_size) { request(Op::barrier, key, world_size); }

 private:
  template <typename... Parts>
  void request(Op operation, const Parts&... parts) {
    auto number = static_cast<std::uint8_t>(operation);
    // The legacy dialect lacks VALIDATE, so all lies one lower, except DELETE_KEY, which follows a watch
    // operation.
    if (dialect_ == Dialect::legacy && operation != Op::delete_key) --number;
    append_integer(out_, number);
    (put(parts), ...);
  }

  template <std::integral Integer>
  void put(Integer number) {
    append_integer(out_, number);
  }

  void put(std::string_view bytes) { append_bytes(out_, bytes); }

  void put(const std::pair<std::string, std::string>& entry) {
    put(entry.first);
    put(entry.second);
  }

  template <typename Element>
  void put(std::span<const Element> elements) {
    append_integer<std::uint64_t>(out_, elements.size());
    for (const Element& element : elements) put(element);
  }

  std::string& out_;
  Dialect dialect_;
};

}  // namespace muster::rendezvous::c10d
