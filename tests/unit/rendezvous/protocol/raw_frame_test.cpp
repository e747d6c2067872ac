// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol/raw_frame.hpp"

#include "catch.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/limits.hpp"

using namespace muster::rendezvous;

TEST_CASE("Bytes of a channel keep their number and content") {
  const std::string payload("\0\xff{\n", 4);
  const std::string body = encode_raw_body(0x01020304, payload);
  CHECK(body == std::string("\x01\x01\x02\x03\x04", 5) + payload);
  REQUIRE(is_raw_body(body));
  CHECK(decode_raw_body(body).channel == 0x01020304);
  CHECK(decode_raw_body(body).payload == payload);
  CHECK(decode_raw_body(encode_raw_body(0xffffffff, "x")).channel == 0xffffffff);
}

TEST_CASE("A message is not taken for bytes of a channel") {
  CHECK_FALSE(is_raw_body("{\"type\":\"left\"}"));
  CHECK_FALSE(is_raw_body(""));
}

TEST_CASE("A raw frame without payload, cut short or too long is refused") {
  CHECK_THROWS_AS(encode_raw_body(1, ""), CoordinatorError);
  CHECK_NOTHROW(encode_raw_body(1, std::string(kMaxRawPayloadBytes, 'x')));
  CHECK_THROWS_AS(encode_raw_body(1, std::string(kMaxRawPayloadBytes + 1, 'x')), CoordinatorError);
  for (std::size_t length = 1; length <= kRawHeaderBytes; ++length)
    CHECK_THROWS_AS(decode_raw_body(encode_raw_body(1, "x").substr(0, length)), CoordinatorError);
  CHECK_THROWS_AS(decode_raw_body(encode_raw_body(1, std::string(kMaxRawPayloadBytes, 'x')) + "x"),
                  CoordinatorError);
}
