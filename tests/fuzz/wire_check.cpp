// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/wire_check.hpp"

#include "rendezvous/c10d/session.hpp"
#include "tests/fuzz/checks.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace muster::rendezvous::c10d {
namespace {

constexpr std::size_t kStoreBytes = 64 * kKiB;

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

std::string describe(const RequestDecoder& decoder) {
  std::string line = "op " + std::to_string(static_cast<int>(decoder.op()));
  line += decoder.dialect() == Dialect::modern ? " modern" : " legacy";
  for (std::size_t i = 0; i < decoder.field_count(); ++i) {
    line += " <" + std::string(decoder.field(i)) + ">";
  }
  return line + "\n";
}

bool is_value(Op op, std::size_t index) {
  if (op == Op::multi_set) return index % 2 == 1;
  return index > 0 && (op == Op::set || op == Op::append || op == Op::queue_push || op == Op::compare_set);
}

void check_limits(const RequestDecoder& decoder, const RequestLimits& limits) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < decoder.field_count(); ++i) {
    const std::size_t size = decoder.field(i).size();
    require(size <= (is_value(decoder.op(), i) ? limits.value_bytes : limits.key_bytes),
            "a field beyond its limit");
    total += size;
  }
  require(total <= limits.request_bytes, "a request beyond its limit");
  const std::uint64_t per_key = decoder.op() == Op::multi_set ? 2 : 1;
  require(decoder.field_count() <= std::max<std::uint64_t>(3, per_key * limits.keys),
          "too many keys in a request");
}

class NoOwner final : public Session::Owner {
 public:
  void output_ready() override {}
};

std::size_t write(std::span<char> space, std::string_view bytes) {
  const std::size_t count = std::min(space.size(), bytes.size());
  std::memcpy(space.data(), bytes.data(), count);
  return count;
}

}  // namespace

RequestLimits small_limits() {
  RequestLimits limits;
  limits.key_bytes = 16;
  limits.value_bytes = 64;
  limits.keys = 4;
  limits.request_bytes = 160;
  limits.direct_value_bytes = 32;
  return limits;
}

std::string decode_in_pieces(std::string_view bytes, const RequestLimits& limits, const Cut& cut) {
  RequestDecoder decoder(limits);
  std::string transcript;
  std::size_t received = 0;
  while (received < bytes.size()) {
    const std::size_t piece =
        std::clamp<std::size_t>(cut(bytes.size() - received), 1, bytes.size() - received);
    const std::size_t count = write(decoder.space(), bytes.substr(received, piece));
    decoder.commit(count);
    received += count;
    auto status = decoder.next();
    for (; status == RequestDecoder::Status::request; status = decoder.next()) {
      check_limits(decoder, limits);
      transcript += describe(decoder);
      const Op op = decoder.op();
      if (op == Op::add || op == Op::barrier || op == Op::ping)
        transcript += std::to_string(decoder.number()) + "\n";
    }
    // A field costs 8 bytes besides the 8 of its length; buffers double; a long value may wait for its next
    // step.
    require(decoder.memory() <= 4 * received + 2 * kInitialInputBytes + kDirectValueStepBytes,
            "more memory than the bytes that came account for");
    if (status == RequestDecoder::Status::violation) return transcript + "violation: " + decoder.error();
  }
  return transcript + (decoder.inside_request() ? "inside a request" : "between requests");
}

std::string serve_in_pieces(std::string_view bytes, const RequestLimits& limits, const Cut& cut) {
  Store store(kStoreBytes);
  NoOwner owner;
  Session session(store, owner, limits);
  std::string transcript;
  std::size_t received = 0;
  bool good = true;
  while (good && received < bytes.size()) {
    const std::size_t piece =
        std::clamp<std::size_t>(cut(bytes.size() - received), 1, bytes.size() - received);
    const std::size_t count = write(session.input_space(), bytes.substr(received, piece));
    received += count;
    good = session.input(count);
    require(store.memory() <= kStoreBytes, "the store passed its cap");
    transcript += session.output();
    session.output_sent(session.output().size());
  }
  return transcript + (session.waiting() ? "\nwaiting " : "\n") + session.error();
}

void check_wire(std::string_view input) {
  if (input.empty()) return;
  const auto choice = static_cast<unsigned char>(input.front());
  const std::string_view bytes = input.substr(1);
  const RequestLimits limits = (choice & 1U) != 0 ? small_limits() : RequestLimits{};
  const Cut whole = [](std::size_t left) { return left; };
  const Cut single = [](std::size_t) { return std::size_t{1}; };
  std::uint32_t state = choice;
  const Cut uneven = [&state](std::size_t) {
    state = state * 1664525U + 1013904223U;
    return std::size_t{1} + (state >> 24U) % 97U;
  };
  const std::string decoded = decode_in_pieces(bytes, limits, whole);
  require(decode_in_pieces(bytes, limits, single) == decoded, "decoding byte by byte differs from one piece");
  require(decode_in_pieces(bytes, limits, uneven) == decoded, "decoding in pieces differs from one piece");
  const std::string served = serve_in_pieces(bytes, limits, whole);
  require(serve_in_pieces(bytes, limits, single) == served, "serving byte by byte differs from one piece");
  require(serve_in_pieces(bytes, limits, uneven) == served, "serving in pieces differs from one piece");
}

}  // namespace muster::rendezvous::c10d

bool muster::fuzz::check_wire_input(std::string_view input) {
  rendezvous::c10d::check_wire(input);
  return true;
}
