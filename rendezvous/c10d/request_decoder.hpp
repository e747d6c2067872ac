// SPDX-License-Identifier: Apache-2.0
// Incremental, bounded decoding of requests in both dialects, which are told apart by the first bytes. The
// decoder owns the bytes: a caller writes into space(), says how many with commit(), and takes whole requests
// with next(). The decoder remembers where it stopped inside a request, so no byte is looked at twice; it
// compares a length with the limits when its header arrives, before it takes memory for it; it receives a
// long value into a string of its own, which can be moved into the store.
#pragma once

#include "rendezvous/c10d/wire.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::rendezvous::c10d {

/// The limits on one request; a test can set lower ones.
struct RequestLimits {
  std::uint64_t key_bytes = kMaxKeyBytes;
  std::uint64_t value_bytes = kMaxValueBytes;
  std::uint64_t keys = kMaxKeysPerRequest;
  std::uint64_t request_bytes = kMaxRequestBytes;
  std::uint64_t direct_value_bytes = kDirectValueBytes;
};

class RequestDecoder {
 public:
  enum class Status {
    need_more,
    request,    ///< op(), field(), number() describe it until next() or space() is called again
    violation,  ///< error() says why; the connection is beyond repair
  };

  explicit RequestDecoder(const RequestLimits& limits = {}) : limits_(limits) {}

  RequestDecoder(const RequestDecoder&) = delete;
  RequestDecoder& operator=(const RequestDecoder&) = delete;

  /// The space for received bytes, never empty; call it only after next() said need_more (or before the first
  /// byte). Ends the last request.
  std::span<char> space();
  /// Tells that `count` bytes were written at the beginning of space().
  void commit(std::size_t count);
  Status next();
  /// Gives all memory back. Earlier requests cannot be asked for any more, and no bytes are taken.
  void drop();

  Dialect dialect() const { return dialect_; }

  /// The operation, in modern numbering whatever the dialect.
  Op op() const { return op_; }

  /// The number of strings of the request, which come in this order: the key; key, value; key, expected,
  /// desired; all keys; or key, value, key, value, ... of MULTI_SET.
  std::size_t field_count() const { return fields_.size() + (large_active_ ? 1 : 0); }

  std::string_view field(std::size_t index) const;

  /// The last field as a string that may be moved from; null if the field was too short to get a string of
  /// its own.
  std::string* large_field() { return large_active_ ? &large_ : nullptr; }

  /// The number of the request: the delta of ADD, the world size of BARRIER, the nonce of PING.
  std::int64_t number() const { return number_; }

  /// Whether a request was begun and is not yet complete.
  bool inside_request() const { return state_ != State::start || end_ != cursor_; }

  const char* error() const { return error_; }

  /// The bytes of memory held for this connection, for tests and counters.
  std::size_t memory() const { return capacity_ + large_.capacity() + fields_.capacity() * sizeof(Field); }

 private:
  enum class State { start, word, count, length, body, large_body, number, complete, failed };
  enum class Shape : std::uint8_t {
    none,
    magic,
    nonce,
    key,
    key_value,
    key_two_values,
    key_number,
    keys,
    pairs
  };

  struct Field {
    std::uint32_t offset;  // counted from begin_, because the buffer may move
    std::uint32_t size;
  };

  std::size_t available() const { return end_ - cursor_; }

  bool step();
  bool read_op();
  bool detect_dialect();
  bool start_request(std::uint8_t number);
  bool read_word();
  bool read_count();
  bool read_length();
  bool start_body(std::uint64_t length);
  bool read_body();
  bool read_large_body();
  bool read_number();
  void after_field();
  bool fail(const char* why);
  bool next_is_value() const;
  bool next_is_last() const;
  void finish_request();
  void make_room();
  void grow(std::size_t capacity);
  static Shape shape_of(Op op);

  RequestLimits limits_;
  State state_ = State::start;
  Shape shape_ = Shape::none;
  Dialect dialect_ = Dialect::unknown;
  Op op_ = Op::validate;
  const char* error_ = "";
  std::int64_t number_ = 0;
  std::uint64_t expected_fields_ = 0;
  std::uint64_t length_ = 0;  // length of the body being received
  std::uint64_t large_received_ = 0;
  bool large_active_ = false;
  std::vector<Field> fields_;
  std::string large_;

  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;   // beginning of the request
  std::size_t cursor_ = 0;  // first byte not yet understood
  std::size_t end_ = 0;     // end of the received bytes
};

}  // namespace muster::rendezvous::c10d
