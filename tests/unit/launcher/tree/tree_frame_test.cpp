// SPDX-License-Identifier: Apache-2.0
#include "launcher/tree/core/tree_frame.hpp"

#include "catch.hpp"
#include "rendezvous/protocol/frame.hpp"

#include <stdexcept>

namespace muster::launcher {
namespace {

using Kind = TreeFrame::Kind;

std::string payload_of(const TreeFrame& frame) {
  rendezvous::FrameDecoder decoder(kTreeFrameHeaderBytes + kTreePlanBytes);
  const std::string bytes = encode(frame);
  CHECK(decoder.feed(bytes) == bytes.size());
  REQUIRE(decoder.ready());
  return decoder.take();
}

TEST_CASE("A frame comes back as it was") {
  for (const TreeFrame& frame :
       {TreeFrame{Kind::bytes, 7, 0, std::string("a\0b\n", 4)},
        TreeFrame{Kind::credit, 0xffffffffU, 1ULL << 63U, {}}, TreeFrame{Kind::ended, 0, 1, "{}"},
        TreeFrame{Kind::halt, 0, 0, {}}, TreeFrame{Kind::plan, 3, 0, std::string(kTreePlanBytes, 'x')},
        TreeFrame{Kind::bytes, 1, 0, std::string(kTreePieceBytes, 'x')}})
    CHECK(decode_tree_frame(payload_of(frame)) == frame);
}

TEST_CASE("Frames that no muster sends are refused") {
  const std::string good = payload_of({Kind::credit, 1, 2, {}});
  CHECK(good.size() == kTreeFrameHeaderBytes);
  for (std::size_t size = 0; size < good.size(); ++size)
    CHECK_THROWS_AS(decode_tree_frame(std::string_view(good).substr(0, size)), std::invalid_argument);
  CHECK_THROWS_AS(decode_tree_frame(good + "x"), std::invalid_argument);
  for (const int kind : {0, 14, 127, 255}) {
    std::string bad = good;
    bad[0] = static_cast<char>(kind);
    CHECK_THROWS_AS(decode_tree_frame(bad), std::invalid_argument);
  }
  const std::string piece = payload_of({Kind::bytes, 1, 0, std::string(kTreePieceBytes, 'x')});
  CHECK_THROWS_AS(decode_tree_frame(piece + "x"), std::invalid_argument);
  const std::string line = payload_of({Kind::said, 1, 0, std::string(kTreeTextBytes, 'x')});
  CHECK_THROWS_AS(decode_tree_frame(line + "x"), std::invalid_argument);
}

TEST_CASE("A body that is too long is not sent") {
  CHECK_THROWS_AS(encode({Kind::bytes, 1, 0, std::string(kTreePieceBytes + 1, 'x')}), std::invalid_argument);
  CHECK_THROWS_AS(encode({Kind::close, 1, 0, "x"}), std::invalid_argument);
  CHECK_THROWS_AS(encode({Kind::plan, 1, 0, std::string(kTreePlanBytes + 1, 'x')}), std::invalid_argument);
}

}  // namespace
}  // namespace muster::launcher
