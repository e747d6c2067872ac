// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/c10d/request_decoder.hpp"

#include "rendezvous/protocol/limits.hpp"

#include <algorithm>
#include <cstring>

namespace muster::rendezvous::c10d {
namespace {

// The operation numbers of the legacy dialect; 7 was a watch operation that no Python program could reach.
constexpr std::uint8_t kLegacyWatch = 7;
constexpr std::uint8_t kLegacyDelete = 8;

}  // namespace

std::span<char> RequestDecoder::space() {
  if (state_ == State::complete) finish_request();
  if (state_ == State::large_body) {
    if (large_received_ == large_.size()) {
      // The string grows in doubling steps, so that memory follows what was received. The cost is one copy of
      // the whole at most.
      const std::uint64_t step = std::max<std::uint64_t>(kDirectValueStepBytes, large_.size());
      large_.resize(std::min<std::uint64_t>(length_, large_.size() + step));
    }
    return {large_.data() + large_received_, large_.size() - large_received_};
  }
  make_room();
  return {buffer_.get() + end_, capacity_ - end_};
}

void RequestDecoder::commit(std::size_t count) {
  if (state_ == State::large_body) {
    large_received_ += count;
  } else {
    end_ += count;
  }
}

RequestDecoder::Status RequestDecoder::next() {
  if (state_ == State::complete) finish_request();
  while (state_ != State::complete) {
    if (!step()) return state_ == State::failed ? Status::violation : Status::need_more;
  }
  return Status::request;
}

void RequestDecoder::drop() {
  state_ = State::failed;
  large_active_ = false;
  begin_ = cursor_ = end_ = capacity_ = 0;
  release(fields_);
  release(large_);
  buffer_.reset();
}

std::string_view RequestDecoder::field(std::size_t index) const {
  if (index == fields_.size()) return large_;
  return {buffer_.get() + begin_ + fields_[index].offset, fields_[index].size};
}

// Advances by one state; false if there are too few bytes for a step, or after a failure.
bool RequestDecoder::step() {
  switch (state_) {
    case State::start:
      return read_op();
    case State::word:
      return read_word();
    case State::count:
      return read_count();
    case State::length:
      return read_length();
    case State::body:
      return read_body();
    case State::large_body:
      return read_large_body();
    case State::number:
      return read_number();
    case State::complete:
      return true;
    case State::failed:
      break;
  }
  return false;
}

bool RequestDecoder::read_op() {
  if (available() == 0) return false;
  if (dialect_ == Dialect::unknown && !detect_dialect()) return false;
  return start_request(static_cast<std::uint8_t>(buffer_[cursor_]));
}

// A modern client begins with 0 and the magic number. The same bytes, read as a legacy SET, would announce a
// key of 1 GB, so the first byte that differs decides.
bool RequestDecoder::detect_dialect() {
  char expected[5] = {0};
  std::memcpy(expected + 1, &kValidateMagic, sizeof(kValidateMagic));
  const std::size_t seen = std::min(available(), sizeof(expected));
  if (std::memcmp(buffer_.get() + cursor_, expected, seen) != 0) {
    dialect_ = Dialect::legacy;
    return true;
  }
  if (seen < sizeof(expected)) return false;
  dialect_ = Dialect::modern;
  return true;
}

bool RequestDecoder::start_request(std::uint8_t number) {
  if (dialect_ == Dialect::legacy) {
    if (number == kLegacyWatch || number > kLegacyDelete) return fail("unknown first byte or operation");
    op_ = number == kLegacyDelete ? Op::delete_key : static_cast<Op>(number + 1);
  } else {
    if (number > kLastOp) return fail("unknown operation");
    op_ = static_cast<Op>(number);
  }
  ++cursor_;
  shape_ = shape_of(op_);
  switch (shape_) {
    case Shape::none:
      state_ = State::complete;
      break;
    case Shape::magic:
    case Shape::nonce:
      state_ = State::word;
      break;
    case Shape::keys:
    case Shape::pairs:
      state_ = State::count;
      break;
    case Shape::key:
    case Shape::key_number:
      expected_fields_ = 1;
      break;
    case Shape::key_value:
      expected_fields_ = 2;
      break;
    case Shape::key_two_values:
      expected_fields_ = 3;
      break;
  }
  if (state_ == State::start) state_ = State::length;
  return true;
}

bool RequestDecoder::read_word() {
  if (available() < sizeof(std::uint32_t)) return false;
  const auto word = load<std::uint32_t>(buffer_.get() + cursor_);
  if (shape_ == Shape::magic && word != kValidateMagic) return fail("wrong magic number in the handshake");
  cursor_ += sizeof(word);
  number_ = word;
  state_ = State::complete;
  return true;
}

bool RequestDecoder::read_count() {
  if (available() < sizeof(std::uint64_t)) return false;
  const auto count = load<std::uint64_t>(buffer_.get() + cursor_);
  if (count > limits_.keys) return fail("more keys in one request than allowed");
  cursor_ += sizeof(count);
  expected_fields_ = shape_ == Shape::pairs ? 2 * count : count;
  state_ = count == 0 ? State::complete : State::length;
  return true;
}

bool RequestDecoder::read_length() {
  if (available() < sizeof(std::uint64_t)) return false;
  const auto length = load<std::uint64_t>(buffer_.get() + cursor_);
  cursor_ += sizeof(length);
  return start_body(length);
}

bool RequestDecoder::start_body(std::uint64_t length) {
  if (next_is_value()) {
    if (length > limits_.value_bytes) return fail("value longer than allowed");
  } else if (length > limits_.key_bytes) {
    return fail("key longer than allowed");
  }
  if (cursor_ - begin_ + length > limits_.request_bytes) return fail("request longer than allowed");
  length_ = length;
  state_ = State::body;
  if (length >= limits_.direct_value_bytes && next_is_last()) {
    const std::size_t present = std::min<std::size_t>(available(), length);
    large_.assign(buffer_.get() + cursor_, present);
    large_received_ = present;
    // The bytes behind a complete value stay where they are; behind an incomplete value there are none.
    cursor_ += present;
    large_active_ = true;
    state_ = State::large_body;
  }
  return true;
}

bool RequestDecoder::read_body() {
  if (available() < length_) return false;
  fields_.push_back({static_cast<std::uint32_t>(cursor_ - begin_), static_cast<std::uint32_t>(length_)});
  cursor_ += length_;
  after_field();
  return true;
}

bool RequestDecoder::read_large_body() {
  if (large_received_ < length_) return false;
  large_.resize(length_);
  state_ = State::complete;
  return true;
}

bool RequestDecoder::read_number() {
  if (available() < sizeof(number_)) return false;
  number_ = load<std::int64_t>(buffer_.get() + cursor_);
  cursor_ += sizeof(number_);
  state_ = State::complete;
  return true;
}

void RequestDecoder::after_field() {
  if (fields_.size() < expected_fields_) {
    state_ = State::length;
  } else {
    state_ = shape_ == Shape::key_number ? State::number : State::complete;
  }
}

bool RequestDecoder::fail(const char* why) {
  error_ = why;
  state_ = State::failed;
  return false;
}

bool RequestDecoder::next_is_value() const {
  switch (shape_) {
    case Shape::key_value:
    case Shape::key_two_values:
      return !fields_.empty();
    case Shape::pairs:
      return fields_.size() % 2 == 1;
    default:
      return false;
  }
}

bool RequestDecoder::next_is_last() const {
  return fields_.size() + 1 == expected_fields_;
}

void RequestDecoder::finish_request() {
  begin_ = cursor_;
  state_ = State::start;
  if (fields_.capacity() > kKeptBufferBytes / sizeof(Field)) {
    release(fields_);
  } else {
    fields_.clear();
  }
  if (!large_active_) return;
  large_active_ = false;
  release(large_);
}

// Makes room for at least one byte behind end_. Bytes move to the front only when the tail is full, and the
// buffer grows only when one request fills it, so each byte is moved a bounded number of times however the
// client cuts its requests.
void RequestDecoder::make_room() {
  if (begin_ == end_) {
    begin_ = cursor_ = end_ = 0;
    if (capacity_ > kKeptBufferBytes) buffer_.reset();
    if (!buffer_) grow(kInitialInputBytes);
    return;
  }
  if (end_ < capacity_) return;
  if (begin_ == 0) {
    grow(2 * capacity_);
    return;
  }
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  cursor_ -= begin_;
  end_ -= begin_;
  begin_ = 0;
}

void RequestDecoder::grow(std::size_t capacity) {
  std::unique_ptr<char[]> larger(new char[capacity]);
  if (buffer_) std::memcpy(larger.get(), buffer_.get(), end_);
  buffer_ = std::move(larger);
  capacity_ = capacity;
}

RequestDecoder::Shape RequestDecoder::shape_of(Op op) {
  switch (op) {
    case Op::validate:
      return Shape::magic;
    case Op::ping:
      return Shape::nonce;
    case Op::get:
    case Op::delete_key:
    case Op::queue_pop:
    case Op::queue_len:
      return Shape::key;
    case Op::set:
    case Op::append:
    case Op::queue_push:
      return Shape::key_value;
    case Op::compare_set:
      return Shape::key_two_values;
    case Op::add:
    case Op::barrier:
      return Shape::key_number;
    case Op::check:
    case Op::wait:
    case Op::multi_get:
      return Shape::keys;
    case Op::multi_set:
      return Shape::pairs;
    case Op::get_num_keys:
    case Op::cancel_wait:
    case Op::list_keys:
      break;
  }
  return Shape::none;
}

}  // namespace muster::rendezvous::c10d
