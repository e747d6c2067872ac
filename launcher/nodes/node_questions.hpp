// SPDX-License-Identifier: Apache-2.0
// Questions to nodes that wait for their answers, each for a few seconds at most.
#pragma once

#include "agent/core/node_status.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace muster::launcher {

/// What came of one question.
struct NodeAnswers {
  /// In the order of the nodes.
  std::vector<agent::NodeStatus> given;
  /// Names of nodes that gave none in time.
  std::vector<std::string> silent;
};

/// What is said of a node that has no agent to ask: it starts, or has ended.
inline agent::NodeStatus without_agent(const std::string& host, const std::string& doing) {
  agent::NodeStatus status;
  status.host = host;
  status.doing = doing;
  return status;
}

/// Used from the executor's one thread. `done` is called neither inside begin() nor after this object has
/// ended.
class NodeQuestions {
 public:
  using Done = std::function<void(NodeAnswers)>;
  using Send = std::function<void(std::size_t node, std::int64_t number)>;

  static constexpr int kOwedMax = 4;

  explicit NodeQuestions(const boost::asio::any_io_executor& executor);
  ~NodeQuestions();
  NodeQuestions(const NodeQuestions&) = delete;
  NodeQuestions& operator=(const NodeQuestions&) = delete;

  /// Begins a question to these nodes, by place and name. `send` is called at once for each that is to be
  /// asked, with the number of the question, which its answer has. `known` is what is known already of
  /// others. `done` is called when all have answered, or after agent::kNodeAnswersWithin. A node that owes
  /// kOwedMax answers is not asked again before it has given one, since what is sent to a node that is
  /// stopped waits.
  void begin(std::map<std::size_t, std::string> nodes, std::map<std::size_t, agent::NodeStatus> known,
             const Send& send, Done done);

  /// Takes a node's answer. One to a question that is not open, or that it was not asked, changes nothing.
  /// The last one of a question calls its `done` at once: what the node says next may end the job, and with
  /// it this object.
  void answered(std::size_t node, std::int64_t number, agent::NodeStatus status);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
