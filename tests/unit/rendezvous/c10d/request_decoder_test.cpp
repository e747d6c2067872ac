// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/c10d/request_decoder.hpp"

#include "catch.hpp"
#include "rendezvous/c10d/request_encoder.hpp"
#include "tests/fuzz/wire_check.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace c10d = muster::rendezvous::c10d;
using c10d::Dialect;
using c10d::Op;
using c10d::RequestDecoder;
using c10d::RequestEncoder;
using Decoded = RequestDecoder::Status;

namespace {

const c10d::Cut whole = [](std::size_t left) { return left; };
const c10d::Cut single = [](std::size_t) { return std::size_t{1}; };

void feed(RequestDecoder& decoder, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<char> space = decoder.space();
    const std::size_t count = std::min(space.size(), bytes.size());
    std::memcpy(space.data(), bytes.data(), count);
    decoder.commit(count);
    bytes.remove_prefix(count);
    if (!bytes.empty()) REQUIRE(decoder.next() == Decoded::need_more);
  }
}

std::string handshake() {
  std::string bytes;
  RequestEncoder(bytes).validate();
  return bytes;
}

// How decoding ended.
std::string end_of(const std::string& bytes) {
  const std::string transcript = c10d::decode_in_pieces(bytes, {}, whole);
  CHECK(c10d::decode_in_pieces(bytes, {}, single) == transcript);
  return transcript.substr(transcript.rfind('\n') + 1);
}

// An operation and its first length or count; nothing of what that announces follows.
std::string header(char op, std::uint64_t number) {
  std::string bytes = handshake();
  bytes.push_back(op);
  c10d::append_integer(bytes, number);
  return bytes;
}

}  // namespace

TEST_CASE("every operation of the modern dialect is decoded, whole and byte by byte") {
  std::string bytes;
  RequestEncoder to(bytes);
  const std::vector<std::string> keys = {"/a", "/b"};
  const std::vector<std::pair<std::string, std::string>> pairs = {{"/a", "1"}, {"/b", "22"}};
  to.validate();
  to.ping(7);
  to.set("/k", "value");
  to.compare_set("/k", "old", "new");
  to.get("/k");
  to.add("/n", -7);
  to.check(keys);
  to.wait(keys);
  to.wait("/k");
  to.num_keys();
  to.delete_key("/k");
  to.append("/k", "more");
  to.multi_get(keys);
  to.multi_set(pairs);
  to.cancel_wait();
  to.queue_push("/q", "item");
  to.queue_pop("/q");
  to.queue_len("/q");
  to.list_keys();
  to.barrier("/bar", 2);
  const std::string expected =
      "op 0 modern\nop 13 modern\n7\nop 1 modern </k> <value>\nop 2 modern </k> <old> <new>\nop 3 modern "
      "</k>\n"
      "op 4 modern </n>\n-7\nop 5 modern </a> </b>\nop 6 modern </a> </b>\nop 6 modern </k>\nop 7 modern\n"
      "op 8 modern </k>\nop 9 modern </k> <more>\nop 10 modern </a> </b>\nop 11 modern </a> <1> </b> <22>\n"
      "op 12 modern\nop 14 modern </q> <item>\nop 15 modern </q>\nop 16 modern </q>\nop 17 modern\n"
      "op 18 modern </bar>\n2\nbetween requests";
  CHECK(c10d::decode_in_pieces(bytes, {}, whole) == expected);
  CHECK(c10d::decode_in_pieces(bytes, {}, single) == expected);
}

TEST_CASE("every operation of the legacy dialect is decoded under its modern name") {
  std::string bytes;
  RequestEncoder to(bytes, Dialect::legacy);
  const std::vector<std::string> keys = {"/a"};
  to.set("/k", "value");
  CHECK(bytes.front() == 0);
  to.compare_set("/k", "old", "new");
  to.get("/k");
  to.add("/n", 1);
  to.check(keys);
  to.wait(keys);
  to.num_keys();
  to.delete_key("/k");
  const std::string expected =
      "op 1 legacy </k> <value>\nop 2 legacy </k> <old> <new>\nop 3 legacy </k>\nop 4 legacy </n>\n1\n"
      "op 5 legacy </a>\nop 6 legacy </a>\nop 7 legacy\nop 8 legacy </k>\nbetween requests";
  CHECK(c10d::decode_in_pieces(bytes, {}, whole) == expected);
  CHECK(c10d::decode_in_pieces(bytes, {}, single) == expected);
}

TEST_CASE("the dialect is decided by the first byte that tells") {
  RequestDecoder decoder;
  SECTION("any operation but 0 is legacy at once") {
    feed(decoder, std::string_view("\x03", 1));
    CHECK(decoder.next() == Decoded::need_more);
    CHECK(decoder.dialect() == Dialect::legacy);
  }
  SECTION("a key length that begins like the magic stays open until it differs") {
    feed(decoder, std::string_view("\x00\xce", 2));
    CHECK(decoder.next() == Decoded::need_more);
    CHECK(decoder.dialect() == Dialect::unknown);
    feed(decoder, std::string_view("\x00", 1));
    CHECK(decoder.next() == Decoded::need_more);
    CHECK(decoder.dialect() == Dialect::legacy);
  }
  SECTION("a handshake in two pieces is one") {
    feed(decoder, handshake().substr(0, 3));
    CHECK(decoder.next() == Decoded::need_more);
    feed(decoder, handshake().substr(3));
    CHECK(decoder.next() == Decoded::request);
    CHECK(decoder.dialect() == Dialect::modern);
  }
  SECTION("bytes of another protocol are refused") {
    feed(decoder, "\x16\x03\x01");
    CHECK(decoder.next() == Decoded::violation);
  }
}

TEST_CASE("limits are met from both sides, from the header alone") {
  using namespace muster::rendezvous;
  CHECK(end_of(header(3, kMaxKeyBytes)) == "inside a request");
  CHECK(end_of(header(3, kMaxKeyBytes + 1)) == "violation: key longer than allowed");
  CHECK(end_of(header(6, kMaxKeysPerRequest)) == "inside a request");
  CHECK(end_of(header(6, kMaxKeysPerRequest + 1)) == "violation: more keys in one request than allowed");
  CHECK(end_of(header(11, kMaxKeysPerRequest + 1)) == "violation: more keys in one request than allowed");
  const std::string set = header(1, 1) + "k";
  std::string number;
  c10d::append_integer(number, kMaxValueBytes);
  CHECK(end_of(set + number) == "inside a request");
  number.front() = 1;  // one more
  CHECK(end_of(set + number) == "violation: value longer than allowed");
  CHECK(end_of(header(1, ~0ULL)) == "violation: key longer than allowed");
}

TEST_CASE("a request as a whole is limited") {
  using namespace muster::rendezvous;
  const std::string big(kMaxValueBytes, 'v');
  std::string bytes = header(11, 3);
  c10d::append_bytes(bytes, "a");
  c10d::append_bytes(bytes, big);
  c10d::append_bytes(bytes, "b");
  const std::size_t used = bytes.size() - handshake().size() + 8;
  std::string at_limit = bytes;
  c10d::append_integer(at_limit, kMaxRequestBytes - used);
  CHECK(c10d::decode_in_pieces(at_limit, {}, whole).ends_with("inside a request"));
  c10d::append_integer(bytes, kMaxRequestBytes - used + 1);
  CHECK(c10d::decode_in_pieces(bytes, {}, whole).ends_with("violation: request longer than allowed"));
}

TEST_CASE("memory follows the bytes that came, not the length that was announced") {
  RequestDecoder decoder;
  std::string bytes = header(1, 1) + "k";
  c10d::append_integer(bytes, muster::rendezvous::kMaxValueBytes);
  feed(decoder, bytes + "v");
  while (decoder.next() == Decoded::request) continue;
  CHECK_FALSE(decoder.space().empty());
  CHECK(decoder.memory() < 600 * 1024);
}

TEST_CASE("a long value lies in a string of its own and the next request behind it is kept") {
  const std::string value(300'000, 'v');
  std::string bytes = handshake();
  RequestEncoder(bytes).set("/k", value);
  RequestEncoder(bytes).get("/k");
  RequestDecoder decoder;
  std::vector<Op> ops;
  std::string taken;
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const std::span<char> space = decoder.space();
    const std::size_t count = std::min({space.size(), bytes.size() - sent, std::size_t{70'000}});
    std::memcpy(space.data(), bytes.data() + sent, count);
    decoder.commit(count);
    sent += count;
    while (decoder.next() == Decoded::request) {
      ops.push_back(decoder.op());
      if (decoder.op() == Op::set) {
        REQUIRE(decoder.large_field() != nullptr);
        taken = std::move(*decoder.large_field());
      }
    }
  }
  CHECK(taken == value);
  CHECK(ops == std::vector<Op>{Op::validate, Op::set, Op::get});
}

TEST_CASE("a byte-at-a-time client costs no more than its bytes") {
  // Re-reading from the start would make 100,000 keys cost 10^11 steps; in place they take milliseconds.
  std::string bytes = header(6, 100'000);
  for (int i = 0; i < 100'000; ++i) c10d::append_bytes(bytes, "/key");
  RequestDecoder decoder;
  const auto start = std::chrono::steady_clock::now();
  std::size_t requests = 0;
  for (const char byte : bytes) {
    decoder.space().front() = byte;
    decoder.commit(1);
    while (decoder.next() == Decoded::request) ++requests;
  }
  CHECK(requests == 2);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}
