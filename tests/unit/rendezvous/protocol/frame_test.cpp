// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol/frame.hpp"

#include "catch.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/protocol/raw_frame.hpp"

#include <string>

using namespace muster::rendezvous;

TEST_CASE("A frame is a big-endian length and its bytes") {
  CHECK(encode_frame("abc") == std::string("\x00\x00\x00\x03"
                                           "abc",
                                           7));
  CHECK(encode_frame(std::string(0x1234, 'x')).substr(0, 4) == std::string("\x00\x00\x12\x34", 4));
}

TEST_CASE("A frame is not ready before its last byte") {
  FrameDecoder decoder(100);
  const std::string bytes = encode_frame("abc");
  CHECK_FALSE(decoder.inside_frame());
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    CHECK(decoder.feed(bytes.substr(i, 1)) == 1);
    CHECK_FALSE(decoder.ready());
    CHECK(decoder.inside_frame());
  }
  CHECK(decoder.feed("c!") == 1);
  CHECK(decoder.ready());
  CHECK(decoder.feed("!") == 0);
  CHECK(decoder.take() == "abc");
  CHECK_FALSE(decoder.ready());
  CHECK_FALSE(decoder.inside_frame());
}

TEST_CASE("Lengths of zero and over the limit are refused from the header") {
  for (const std::string& header :
       {std::string(4, '\0'), std::string("\x00\x00\x00\x65", 4), std::string("\x7f\xff\xff\xff", 4),
        std::string("\x80\x00\x00\x00", 4), std::string("\xff\xff\xff\xff", 4)}) {
    FrameDecoder decoder(100);
    CHECK(decoder.feed(header.substr(0, 3)) == 3);
    CHECK_THROWS_AS(decoder.feed(header.substr(3)), CoordinatorError);
  }
  FrameDecoder decoder(100);
  CHECK(decoder.feed(std::string("\x00\x00\x00\x64", 4)) == 4);
}

TEST_CASE("The limit can be raised between frames") {
  FrameDecoder decoder(10);
  decoder.set_limit(20);
  decoder.feed(encode_frame(std::string(20, 'a')));
  CHECK(decoder.ready());
}

TEST_CASE("A body over the limit is not sent") {
  CHECK_THROWS_AS(encode_frame(std::string(kMaxControlFrameBytes + 1, 'x')), CoordinatorError);
}

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
