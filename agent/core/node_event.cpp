// SPDX-License-Identifier: Apache-2.0
#include "agent/core/node_event.hpp"

#include "agent/core/health_json.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <nlohmann/json.hpp>

#include <stdexcept>

namespace muster::agent {

using EventKind = NodeEvent::Kind;

NLOHMANN_JSON_SERIALIZE_ENUM(EventKind, {{EventKind::round, "round"},
                                         {EventKind::caught_up, "caught_up"},
                                         {EventKind::worker_end, "worker_end"},
                                         {EventKind::failure, "failure"},
                                         {EventKind::round_end, "round_end"},
                                         {EventKind::hang, "hang"},
                                         {EventKind::moves, "moves"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NodeEvent, kind, round, nodes, node_rank, world_size,
                                                first_rank, workers, restarts, rank, pid, exit_code, signal,
                                                stopped, memory, text, error_line, node, cause, decision,
                                                again, delay_ms, step, level, culprits, still_ms)

std::string to_json(const NodeEvent& event) {
  return nlohmann::json(event).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

NodeEvent node_event_from_json(const std::string& text) {
  if (text.size() > kNodeEventMax) throw std::invalid_argument("an event of a node: too long");
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.at("culprits").size() > rendezvous::kMaxCulprits)
      throw std::invalid_argument("an event of a node: too many culprits");
    return json.get<NodeEvent>();
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(std::string("an event of a node: ") + error.what());
  }
}

}  // namespace muster::agent
