// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol/frame.hpp"

#include "catch.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <vector>

using namespace muster::rendezvous;

namespace {

/// All frames in `bytes`, fed in pieces of `piece` bytes.
std::vector<std::string> decode(const std::string& bytes, std::size_t piece) {
  FrameDecoder decoder(100);
  std::vector<std::string> frames;
  for (std::size_t start = 0; start < bytes.size(); start += piece) {
    std::string_view rest = std::string_view(bytes).substr(start, piece);
    while (!rest.empty()) {
      rest.remove_prefix(decoder.feed(rest));
      if (decoder.ready()) frames.push_back(decoder.take());
    }
  }
  return frames;
}

}  // namespace

TEST_CASE("A frame is a big-endian length and its bytes") {
  CHECK(encode_frame("abc") == std::string("\x00\x00\x00\x03"
                                           "abc",
                                           7));
  CHECK(encode_frame(std::string(0x1234, 'x')).substr(0, 4) == std::string("\x00\x00\x12\x34", 4));
}

TEST_CASE("Frames are found however the bytes are cut") {
  const std::string bytes =
      encode_frame("one") + encode_frame("second") + encode_frame(std::string(100, 'z'));
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    const std::vector<std::string> frames = decode(bytes, piece);
    REQUIRE(frames.size() == 3);
    CHECK(frames[0] == "one");
    CHECK(frames[1] == "second");
    CHECK(frames[2] == std::string(100, 'z'));
  }
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
