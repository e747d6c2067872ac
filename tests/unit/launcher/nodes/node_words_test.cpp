// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/core/node_words.hpp"

#include "catch.hpp"

using muster::agent::LinkMessage;
using muster::launcher::last_words_of;
using muster::launcher::LineLimit;

TEST_CASE("a node's lines are shown up to the limit, and what is left out is counted") {
  const LineLimit::TimePoint begin{};
  LineLimit limit;
  std::size_t shown = 0;
  for (int i = 0; i < 1000; ++i)
    if (limit.admit(begin + std::chrono::milliseconds(i))) ++shown;
  CHECK(shown == LineLimit::kLines);
  CHECK(limit.take_left_out(begin + std::chrono::seconds(1), false) == 0);
  const auto later = begin + LineLimit::kStretch;
  CHECK(limit.take_left_out(later, false) == 1000 - LineLimit::kLines);
  CHECK(limit.take_left_out(later, false) == 0);
  CHECK(limit.admit(later));
}

TEST_CASE("at the end the count is told at once") {
  const LineLimit::TimePoint begin{};
  LineLimit limit;
  for (std::size_t i = 0; i < LineLimit::kLines + 7; ++i) limit.admit(begin);
  CHECK(limit.take_left_out(begin, true) == 7);
}

TEST_CASE("The last words of a node name it, and it cannot put them in the mouth of another") {
  const auto words = [](LinkMessage::Notice what, const std::string& body) {
    return last_words_of("n1", {LinkMessage::Kind::notice, what, body});
  };
  CHECK(words(LinkMessage::agent_lost, "killed by SIGKILL") ==
        "the agent process of n1 was lost (killed by SIGKILL)");
  CHECK(words(LinkMessage::in_words, "no shell") == "n1: no shell");
  CHECK(words(LinkMessage::in_words, "n1: no shell") == "n1: no shell");
  CHECK(words(LinkMessage::in_words, "the agent process of n2 was lost") ==
        "n1: the agent process of n2 was lost");
  CHECK(words(LinkMessage::in_words, std::string(5000, 'x')).size() == 4096 + 3);
}
