// SPDX-License-Identifier: Apache-2.0
#include "agent/core/link_message.hpp"

#include "agent/core/link_text.hpp"
#include "tests/support/catch.hpp"

#include <stdexcept>

namespace {

using muster::agent::decode_link_message;
using muster::agent::encode;
using muster::agent::LinkMessage;

}  // namespace

TEST_CASE("a link's messages keep any bytes") {
  LinkMessage message;
  message.kind = LinkMessage::Kind::output;
  message.number = 2;
  message.body = std::string("\0\n\xff 7\n", 6);
  const LinkMessage back = decode_link_message(encode(message));
  CHECK(back.kind == message.kind);
  CHECK(back.number == 2);
  CHECK(back.body == message.body);
  CHECK_THROWS_AS(decode_link_message("output\n"), std::invalid_argument);
  CHECK_THROWS_AS(decode_link_message("output x\n"), std::invalid_argument);
  CHECK_THROWS_AS(decode_link_message("outpu 1\n"), std::invalid_argument);
}

TEST_CASE("a piece of a log file names where it belongs") {
  muster::agent::FilePiece piece;
  piece.name = "attempt_0/1/std out.log";
  piece.offset = 123456789012;
  piece.bytes = std::string("\0a\n", 3);
  const auto back = muster::agent::file_piece_from(muster::agent::to_body(piece));
  CHECK(back.name == piece.name);
  CHECK(back.offset == piece.offset);
  CHECK(back.bytes == piece.bytes);
  CHECK_FALSE(back.last);
  for (const char* name : {"", "/etc/passwd", "a/../b", "..", "a//b", "./a", "a/"}) {
    piece.name = name;
    CHECK_THROWS_AS(muster::agent::file_piece_from(muster::agent::to_body(piece)), std::invalid_argument);
  }
  for (const char* body : {"", "1", "1 0", "1 0 ", "x 0 a", "-1 0 a"})
    CHECK_THROWS_AS(muster::agent::file_piece_from(body), std::invalid_argument);
}
