// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/node_questions.hpp"

#include "catch.hpp"
#include "tests/support/run_until.hpp"

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <optional>

using namespace muster;
using namespace muster::launcher;

namespace {

struct Asked {
  boost::asio::io_context context{1};
  std::optional<NodeQuestions> questions{context.get_executor()};
  std::vector<NodeAnswers> answers;
  std::vector<std::size_t> sent;
  std::int64_t last = 0;

  std::int64_t begin(std::map<std::size_t, std::string> nodes,
                     std::map<std::size_t, agent::NodeStatus> known = {}) {
    const auto send = [this](std::size_t node, std::int64_t number) {
      sent.push_back(node);
      last = number;
    };
    questions->begin(std::move(nodes), std::move(known), send,
                     [this](NodeAnswers came) { answers.push_back(std::move(came)); });
    return last;
  }

  void wait() {
    test::run_until(context, [this] { return !answers.empty(); });
  }
};

}  // namespace

TEST_CASE("A question ends when all nodes have answered, in their order") {
  Asked asked;
  const auto number = asked.begin({{0, "a"}, {2, "c"}}, {{1, without_agent("b", "is lost")}});
  asked.questions->answered(2, number, without_agent("c", "works"));
  asked.questions->answered(2, number, without_agent("twice", ""));
  asked.questions->answered(1, number, without_agent("not asked", ""));
  asked.questions->answered(0, number + 1, without_agent("another question", ""));
  CHECK(asked.answers.empty());
  asked.questions->answered(0, number, without_agent("a", "works"));
  // At once: what comes next may be the report with which the job ends.
  REQUIRE(asked.answers.size() == 1);
  REQUIRE(asked.answers[0].given.size() == 3);
  CHECK(asked.answers[0].given[0].host == "a");
  CHECK(asked.answers[0].given[1].doing == "is lost");
  CHECK(asked.answers[0].given[2].host == "c");
  CHECK(asked.answers[0].silent.empty());
}

TEST_CASE("Silent nodes end a question after three seconds and are named") {
  Asked asked;
  const auto begin = std::chrono::steady_clock::now();
  const auto number = asked.begin({{0, "a"}, {1, "b"}});
  asked.questions->answered(1, number, without_agent("b", "works"));
  asked.wait();
  CHECK(std::chrono::steady_clock::now() - begin >= agent::kNodeAnswersWithin);
  CHECK(asked.answers[0].given.size() == 1);
  CHECK(asked.answers[0].silent == std::vector<std::string>{"a"});
  asked.questions->answered(0, number, without_agent("a", "late"));
  CHECK(asked.answers.size() == 1);
}

TEST_CASE("Without nodes to ask the answer comes at once; after the end none comes") {
  Asked asked;
  asked.begin({}, {{0, without_agent("a", "ends")}});
  asked.wait();
  CHECK(asked.answers[0].given.size() == 1);
  asked.begin({});
  asked.questions.reset();
  asked.context.restart();
  asked.context.run();
  CHECK(asked.answers.size() == 1);
}

TEST_CASE("A node that owes answers is not asked again before it has given one") {
  Asked asked;
  std::vector<std::int64_t> numbers;
  for (int i = 0; i < NodeQuestions::kOwedMax; ++i) numbers.push_back(asked.begin({{0, "a"}}));
  CHECK(asked.sent.size() == NodeQuestions::kOwedMax);
  asked.begin({{0, "a"}, {1, "b"}});
  CHECK(asked.sent.size() == NodeQuestions::kOwedMax + 1);
  CHECK(asked.sent.back() == 1);
  asked.questions->answered(0, numbers.front(), without_agent("a", "works"));
  asked.begin({{0, "a"}});
  CHECK(asked.sent.back() == 0);
}
