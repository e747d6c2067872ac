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

/// A list in an object, and the most items that it may have.
struct ListLimit {
  const char* name = "";
  std::size_t most = 0;
};

/// Reads an object with these lists: their items are counted before memory is taken for them, as an item of a
/// few characters is a large struct.
template <typename Value>
Value parsed(const std::string& text, const char* what, const std::vector<ListLimit>& limits) {
  try {
    const Json json = Json::parse(text);
    for (const ListLimit& limit : limits)
      if (const auto items = json.find(limit.name); items != json.end() && items->size() > limit.most)
        throw std::invalid_argument(std::string(what) + ": too many " + limit.name);
    return json.get<Value>();
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string(what) + ": " + error.what());
  }
}

}  // namespace

void advise_where_late(std::vector<WorkerStatus>& workers) {
  const auto advise = [&workers](std::string& error) {
    if (error != kNoTime) return;
    error += workers.size() > 1 ? "; ask for fewer ranks: muster stacks JOB --rank N" : "; ask again";
  };
  for (WorkerStatus& worker : workers)
    for (ProcessPicture& picture : worker.processes) {
      advise(picture.stacks.error);
      if (picture.native) advise(picture.native->error);
    }
}

std::string to_json(const NodeQuery& query) {
  return as_text(query);
}

NodeQuery node_query_from_json(const std::string& text) {
  if (text.size() > kNodeQueryMax) throw std::invalid_argument("a question about a node: too long");
  auto query = parsed<NodeQuery>(text, "a question about a node", {{"ranks", kNodeQueryMax}});
  if (std::any_of(query.ranks.begin(), query.ranks.end(), [](int rank) { return rank < 0; }))
    throw std::invalid_argument("a question about a node: a rank below 0");
  if (query.signal < 0 || query.signal > kSignalMost)
    throw std::invalid_argument("a question about a node: no signal");
  return query;
}

std::string to_json(const NodeStatus& status) {
  return as_text(status);
}

NodeStatus node_status_from_json(const std::string& text) {
  if (text.size() > kNodeStatusMax) throw std::invalid_argument("the status of a node: too long");
  return parsed<NodeStatus>(text, "the status of a node",
                            {{"workers", rendezvous::kMaxWorkersPerNode}, {"ended_rounds", kEndedRoundsMax}});
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
  shorter.ended_rounds.clear();
  shorter.doing = status.doing + "; its workers are left out, as they are too many for one answer";
  return to_json(shorter);
}

}  // namespace muster::agent
