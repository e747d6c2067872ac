// SPDX-License-Identifier: Apache-2.0
#include "agent/core/node_status.hpp"

#include "agent/core/node_status_json.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <algorithm>
#include <stdexcept>

namespace muster::agent {

using Json = nlohmann::json;

namespace {

std::string as_text(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// Reads an object that may have at most `most` items in its list called `list`: they are counted before
/// memory is taken for them, as an item of a few characters is a large struct.
template <typename Value>
Value parsed(const std::string& text, const char* what, const char* list, std::size_t most) {
  try {
    const Json json = Json::parse(text);
    if (const auto items = json.find(list); items != json.end() && items->size() > most)
      throw std::invalid_argument(std::string(what) + ": too many " + list);
    return json.get<Value>();
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string(what) + ": " + error.what());
  }
}

}  // namespace

std::string to_json(const NodeQuery& query) {
  return as_text(query);
}

NodeQuery node_query_from_json(const std::string& text) {
  if (text.size() > kNodeQueryMax) throw std::invalid_argument("a question about a node: too long");
  auto query = parsed<NodeQuery>(text, "a question about a node", "ranks", kNodeQueryMax);
  if (std::any_of(query.ranks.begin(), query.ranks.end(), [](int rank) { return rank < 0; }))
    throw std::invalid_argument("a question about a node: a rank below 0");
  return query;
}

std::string to_json(const NodeStatus& status) {
  return as_text(status);
}

NodeStatus node_status_from_json(const std::string& text) {
  if (text.size() > kNodeStatusMax) throw std::invalid_argument("the status of a node: too long");
  return parsed<NodeStatus>(text, "the status of a node", "workers", rendezvous::kMaxWorkersPerNode);
}

std::string to_json_within(const NodeStatus& status, std::size_t most) {
  std::string text = to_json(status);
  if (text.size() <= most) return text;
  NodeStatus shorter = status;
  for (WorkerStatus& worker : shorter.workers) worker.processes.clear();
  shorter.doing += "; the stacks of its workers are left out, as they are too long";
  text = to_json(shorter);
  if (text.size() <= most) return text;
  shorter.workers.clear();
  shorter.doing = status.doing + "; its workers are left out, as they are too many for one answer";
  return to_json(shorter);
}

}  // namespace muster::agent
