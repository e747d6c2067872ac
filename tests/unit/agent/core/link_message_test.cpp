// SPDX-License-Identifier: Apache-2.0
#include "agent/core/link_message.hpp"

#include "agent/core/link_text.hpp"
#include "tests/support/catch.hpp"

#include <chrono>
#include <optional>
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

TEST_CASE("an order to stop may have a reason, and a grace period of its own") {
  using namespace muster::agent;
  using namespace std::chrono_literals;
  for (const StopOrder& order : {StopOrder{}, StopOrder{"timeout"}, StopOrder{"", 0ms},
                                 StopOrder{"failure of rank 3", 1500ms}, StopOrder{"", kGraceMost}})
    CHECK(stop_order_from_json(to_json(order)) == order);
  CHECK(stop_order_from_json("") == StopOrder{});
  for (const char* wrong : {"x", "[]", "15", R"({"grace_ms":-1})", R"({"grace_ms":100000000001})",
                            R"({"grace_ms":"1"})", R"({"reason":1})"})
    CHECK_THROWS_AS(stop_order_from_json(wrong), std::invalid_argument);
}
