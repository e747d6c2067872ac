// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/c10d/request_encoder.hpp"

namespace muster::rendezvous::c10d {

void RequestEncoder::op(Op operation) {
  auto number = static_cast<std::uint8_t>(operation);
  // The legacy dialect lacks VALIDATE, so all lies one lower, except DELETE_KEY, which follows a watch
  // operation.
  if (dialect_ == Dialect::legacy && operation != Op::delete_key) --number;
  out_.push_back(static_cast<char>(number));
}

void RequestEncoder::keys(Op operation, std::span<const std::string> keys) {
  op(operation);
  append_integer<std::uint64_t>(out_, keys.size());
  for (const std::string& key : keys) append_bytes(out_, key);
}

void RequestEncoder::validate() {
  op(Op::validate);
  append_integer(out_, kValidateMagic);
}

void RequestEncoder::ping(std::uint32_t nonce) {
  op(Op::ping);
  append_integer(out_, nonce);
}

void RequestEncoder::set(std::string_view key, std::string_view value) {
  op(Op::set);
  append_bytes(out_, key);
  append_bytes(out_, value);
}

void RequestEncoder::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  op(Op::compare_set);
  append_bytes(out_, key);
  append_bytes(out_, expected);
  append_bytes(out_, desired);
}

void RequestEncoder::get(std::string_view key) {
  op(Op::get);
  append_bytes(out_, key);
}

void RequestEncoder::add(std::string_view key, std::int64_t delta) {
  op(Op::add);
  append_bytes(out_, key);
  append_integer(out_, delta);
}

void RequestEncoder::check(std::span<const std::string> names) {
  keys(Op::check, names);
}

void RequestEncoder::wait(std::span<const std::string> names) {
  keys(Op::wait, names);
}

void RequestEncoder::wait(std::string_view key) {
  op(Op::wait);
  append_integer(out_, std::uint64_t{1});
  append_bytes(out_, key);
}

void RequestEncoder::num_keys() {
  op(Op::get_num_keys);
}

void RequestEncoder::delete_key(std::string_view key) {
  op(Op::delete_key);
  append_bytes(out_, key);
}

void RequestEncoder::append(std::string_view key, std::string_view value) {
  op(Op::append);
  append_bytes(out_, key);
  append_bytes(out_, value);
}

void RequestEncoder::multi_get(std::span<const std::string> names) {
  keys(Op::multi_get, names);
}

void RequestEncoder::multi_set(std::span<const std::pair<std::string, std::string>> pairs) {
  op(Op::multi_set);
  append_integer<std::uint64_t>(out_, pairs.size());
  for (const auto& [key, value] : pairs) {
    append_bytes(out_, key);
    append_bytes(out_, value);
  }
}

void RequestEncoder::cancel_wait() {
  op(Op::cancel_wait);
}

void RequestEncoder::queue_push(std::string_view key, std::string_view value) {
  op(Op::queue_push);
  append_bytes(out_, key);
  append_bytes(out_, value);
}

void RequestEncoder::queue_pop(std::string_view key) {
  op(Op::queue_pop);
  append_bytes(out_, key);
}

void RequestEncoder::queue_len(std::string_view key) {
  op(Op::queue_len);
  append_bytes(out_, key);
}

void RequestEncoder::list_keys() {
  op(Op::list_keys);
}

void RequestEncoder::barrier(std::string_view key, std::int64_t world_size) {
  op(Op::barrier);
  append_bytes(out_, key);
  append_integer(out_, world_size);
}

}  // namespace muster::rendezvous::c10d
