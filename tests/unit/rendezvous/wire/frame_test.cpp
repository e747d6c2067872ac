// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/frame.hpp"

#include "catch.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <string>
#include <vector>

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

TEST_CASE("A body's first byte says what it is, and every kind survives the way over the wire") {
  const std::string payload("\0\xff{\n", 4);

  struct Row {
    FrameKind kind;
    std::uint32_t channel;
    std::uint64_t count;
    std::string payload;
    std::string body;
  };

  for (const Row& row : std::vector<Row>{
           {FrameKind::message, 0, 0, "{\"type\":\"left\"}", "{\"type\":\"left\"}"},
           {FrameKind::bytes, 0x01020304, 0, payload, std::string("\x01\x01\x02\x03\x04", 5) + payload},
           {FrameKind::opened, 2, 0, "for", std::string("\x02\0\0\0\x02", 5) + "for"},
           {FrameKind::credit, 0xffffffff, 4096, "",
            std::string("\x03\xff\xff\xff\xff\0\0\0\0\0\0\x10\0", 13)},
           {FrameKind::closed, 3, 0, "", std::string("\x04\0\0\0\x03", 5)},
           {FrameKind::ack, 0, 7, "", std::string("\x05\0\0\0\0\0\0\0\x07", 9)},
           {FrameKind::resume, 0, ~std::uint64_t{0}, "", "\x06" + std::string(8, '\xff')},
           {FrameKind::aside, 0, 0, payload, "\x07" + payload}}) {
    Frame frame;
    frame.kind = row.kind;
    frame.channel = row.channel;
    frame.count = row.count;
    frame.payload = row.payload;
    CHECK(encode_frame(frame) == encode_frame(row.body));
    const Frame back = decode_body(row.body);
    CHECK(back.kind == row.kind);
    CHECK(back.channel == row.channel);
    CHECK(back.count == row.count);
    CHECK(back.payload == row.payload);
  }
}

TEST_CASE("A body of an unknown kind, cut short or too long is refused") {
  const std::string most(kMaxRawPayloadBytes, 'x');
  CHECK_NOTHROW(decode_body(std::string("\x01\0\0\0\x01", 5) + most));
  for (const std::string& body :
       {std::string(1, '\0'), std::string("\x08"), std::string("\x1f{}"), std::string("\x01\0\0\0", 4),
        std::string("\x01\0\0\0\x01", 5), std::string("\x01\0\0\0\x01", 5) + most + "x", std::string("\x02"),
        std::string("\x03\0\0\0\x01\0\0\0\0\0\0\0", 12), std::string("\x05\0\0\0\0\0\0\0\x07x", 10)})
    CHECK_THROWS_AS(decode_body(body), CoordinatorError);
}
