// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/node_questions.hpp"

#include <boost/asio/steady_timer.hpp>

#include <utility>

namespace muster::launcher {

// The state is shared with the timers under way.
struct NodeQuestions::State : std::enable_shared_from_this<State> {
  struct Question {
    std::map<std::size_t, std::string> open;
    std::map<std::size_t, agent::NodeStatus> given;
    Done done;
    std::unique_ptr<boost::asio::steady_timer> timer;
  };

  explicit State(const boost::asio::any_io_executor& given_executor) : executor(given_executor) {}

  /// Ends the question when its timer fires: at its limit, or at once where there is nobody to ask.
  void end_at(std::int64_t number, std::chrono::milliseconds after) {
    boost::asio::steady_timer& timer = *questions.at(number).timer;
    timer.expires_after(after);
    timer.async_wait([weak = weak_from_this(), number](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (!error && self) self->end(number);
    });
  }

  void end(std::int64_t number) {
    const auto found = questions.find(number);
    if (found == questions.end()) return;
    Question question = std::move(found->second);
    questions.erase(found);
    NodeAnswers answers;
    for (auto& [node, status] : question.given) answers.given.push_back(std::move(status));
    for (auto& [node, name] : question.open) answers.silent.push_back(std::move(name));
    question.done(std::move(answers));
  }

  boost::asio::any_io_executor executor;
  std::int64_t last = 0;
  /// Answers that each node has not given yet, wanted still or not.
  std::map<std::size_t, int> owed;
  std::map<std::int64_t, Question> questions;
};

NodeQuestions::NodeQuestions(const boost::asio::any_io_executor& executor)
    : state_(std::make_shared<State>(executor)) {}

NodeQuestions::~NodeQuestions() = default;

void NodeQuestions::begin(std::map<std::size_t, std::string> nodes,
                          std::map<std::size_t, agent::NodeStatus> known, const Send& send, Done done) {
  const std::int64_t number = ++state_->last;
  for (const auto& [node, name] : nodes) {
    int& owed = state_->owed[node];
    if (owed >= kOwedMax) continue;
    ++owed;
    send(node, number);
  }
  State::Question question;
  question.open = std::move(nodes);
  question.given = std::move(known);
  question.done = std::move(done);
  question.timer = std::make_unique<boost::asio::steady_timer>(state_->executor);
  const bool none = question.open.empty();
  state_->questions.emplace(number, std::move(question));
  state_->end_at(number, none ? std::chrono::milliseconds(0) : agent::kNodeAnswersWithin);
}

void NodeQuestions::answered(std::size_t node, std::int64_t number, agent::NodeStatus status) {
  if (int& owed = state_->owed[node]; owed > 0) --owed;
  const auto found = state_->questions.find(number);
  if (found == state_->questions.end() || found->second.open.erase(node) == 0) return;
  found->second.given.emplace(node, std::move(status));
  if (!found->second.open.empty()) return;
  // Who is told of the answer may destroy this object.
  const auto state = state_;
  state->end(number);
}

}  // namespace muster::launcher
