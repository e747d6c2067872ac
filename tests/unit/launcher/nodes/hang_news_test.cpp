// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/hang_news.hpp"

#include "catch.hpp"
#include "tests/support/run_until.hpp"

#include <boost/asio/io_context.hpp>

#include <string>
#include <vector>

using namespace muster;
using namespace muster::launcher;

namespace {

struct Told {
  boost::asio::io_context context{1};
  std::vector<std::string> said;
  HangNews news{context.get_executor(), [this](std::size_t node, const std::string& line) {
                  said.push_back(std::to_string(node) + ": " + line);
                }};
};

agent::HangReport hang_of(int rank, const std::string& text = "rank 1 is hung") {
  return {rendezvous::HangLevel::is_hung, text, 0, -1, {{{rank}, {{"train.py", 41, "step"}}, false}}};
}

}  // namespace

TEST_CASE("A verdict is said once, with the stacks of all nodes, as soon as they have told it") {
  Told told;
  told.news.told(2, hang_of(2), 3);
  told.news.told(0, hang_of(0), 3);
  CHECK(told.said.empty());
  told.news.told(1, hang_of(1), 3);
  CHECK(told.said == std::vector<std::string>{"0: rank 1 is hung", "0:   ranks 0-2: train.py:41 step"});
  told.news.told(1, hang_of(1, "rank 0 is hung"), 1);
  CHECK(told.said.size() == 4);
  CHECK(told.said[2] == "1: rank 0 is hung");
}

TEST_CASE("A node that does not tell its stacks is not waited for, and what comes late is dropped") {
  Told told;
  told.news.told(1, hang_of(1), 2);
  CHECK(told.said.empty());
  test::run_until(told.context, [&told] { return !told.said.empty(); });
  CHECK(told.said == std::vector<std::string>{"1: rank 1 is hung", "1:   rank 1: train.py:41 step"});
  told.news.told(0, hang_of(0), 2);
  told.news.flush();
  CHECK(told.said.size() == 2);
}

TEST_CASE("Another verdict ends the wait for the stacks of the one before") {
  Told told;
  told.news.told(0, hang_of(0), 2);
  told.news.told(0, hang_of(0, "rank 0 is hung"), 2);
  REQUIRE(told.said.size() == 2);
  CHECK(told.said[0] == "0: rank 1 is hung");
  told.news.flush();
  CHECK(told.said.size() == 4);
}
