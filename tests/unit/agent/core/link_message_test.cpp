// SPDX-License-Identifier: Apache-2.0
#include "agent/core/link_message.hpp"

#include "tests/support/catch.hpp"

#include <stdexcept>

namespace {

using muster::agent::decode_link_message;
using muster::agent::encode;
using muster::agent::LinkMessage;

}  // namespace

TEST_CASE("a link's messages keep any bytes") {
  LinkMessage message;
  message.kind = LinkMessage::Kind::report;
  message.number = 2;
  message.body = std::string("\0\n\xff 7\n", 6);
  const LinkMessage back = decode_link_message(encode(message));
  CHECK(back.kind == message.kind);
  CHECK(back.number == 2);
  CHECK(back.body == message.body);
  CHECK_THROWS_AS(decode_link_message("report\n"), std::invalid_argument);
  CHECK_THROWS_AS(decode_link_message("report x\n"), std::invalid_argument);
  CHECK_THROWS_AS(decode_link_message("repor 1\n"), std::invalid_argument);
}
