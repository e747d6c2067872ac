// SPDX-License-Identifier: Apache-2.0
#include "agent/core/agent_spec.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <ranges>
#include <stdexcept>
#include <type_traits>

namespace muster::agent {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

// --- The fields, each named once: for reading and for writing. `bytes` are texts that need not be UTF-8.

template <typename Given, typename Wanted>
concept Either = std::is_same_v<std::remove_const_t<Given>, Wanted>;

template <Either<StreamsByRank> Streams, typename Visit>
void fields(Streams& streams, const Visit& visit) {
  visit("fallback", streams.fallback);
  visit("by_rank", streams.by_rank);
}

template <Either<OutputSpec> Output, typename Visit>
void fields(Output& output, const Visit& visit) {
  visit.bytes("log_dir", output.log_dir);
  visit("log_dir_is_temporary", output.log_dir_is_temporary);
  visit("redirects", output.redirects);
  visit("tee", output.tee);
  visit.bytes("line_prefix_template", output.line_prefix_template);
  visit("log_max_bytes", output.log_max_bytes);
  visit("console_ranks", output.console_ranks);
  visit.bytes("stdout_filters", output.stdout_filters);
  visit.bytes("stderr_filters", output.stderr_filters);
  visit("rank_prefix", output.rank_prefix);
  visit("raw_output", output.raw_output);
  visit("framed", output.framed);
  visit("gather_logs", output.gather_logs);
}

template <Either<rendezvous::StoreSpec> Store, typename Visit>
void fields(Store& store, const Visit& visit) {
  visit("host", store.host);
  visit("port", store.port);
  visit("same_user_only", store.same_user_only);
}

template <Either<AloneNode> Alone, typename Visit>
void fields(Alone&, const Visit&) {}

template <Either<StartedNode> Started, typename Visit>
void fields(Started& started, const Visit& visit) {
  visit("listen_port", started.listen_port);
  visit("peers", started.peers);
  visit("expected_nodes", started.expected_nodes);
}

template <Either<PeerNode> Peer, typename Visit>
void fields(Peer& peer, const Visit& visit) {
  visit("hosting_inferred", peer.hosting_inferred);
  visit("waits_for_name", peer.waits_for_name);
  visit("settings", peer.settings);
}

template <Either<NodeSpec> Node, typename Visit>
void fields(Node& node, const Visit& visit) {
  visit.one_of("form", node.form);
  visit("name", node.name);
  visit("incarnation", node.incarnation);
  visit("node_rank", node.node_rank);
  visit("coordinator", node.coordinator);
  visit("interface_name", node.interface_name);
  visit("coordinator_host", node.coordinator_host);
  visit("coordinator_port", node.coordinator_port);
  visit("local_addr", node.local_addr);
}

template <Either<AgentSpec> Spec, typename Visit>
void fields(Spec& spec, const Visit& visit) {
  visit("run_id", spec.run_id);
  visit("role", spec.role);
  visit("host", spec.host);
  visit("min_nodes", spec.limits.min_nodes);
  visit("max_nodes", spec.limits.max_nodes);
  visit("workers", spec.workers);
  visit.bytes("command", spec.command);
  visit("first_script_argument", spec.first_script_argument);
  visit.bytes("working_directory", spec.working_directory);
  visit.bytes("environment", spec.environment);
  visit.bytes("unset_environment", spec.unset_environment);
  visit("stdin_rank", spec.stdin_rank);
  visit("bind_to", spec.bind_to);
  visit("numa_binding", spec.numa_binding);
  visit("virtual_local_rank", spec.virtual_local_rank);
  visit("max_restarts", spec.limits.max_restarts);
  visit("restart_policy", spec.limits.restart_rule);
  visit("shutdown_timeout_ms", spec.shutdown_timeout);
  visit("stop_groups", spec.stop_groups);
  visit("join_timeout_ms", spec.limits.join_timeout);
  visit("last_call_timeout_ms", spec.limits.last_call_timeout);
  visit("hang_timeout_ms", spec.limits.hang_timeout);
  visit("on_hang", spec.limits.on_hang);
  visit("tell_worker_ends", spec.tell_worker_ends);
  visit("report_after_ms", spec.report_after);
  visit("store", spec.store);
  visit("node", spec.node);
  visit.inside("node")("store_proxy", spec.limits.store_proxy);
  visit("output", spec.output);
}

// --- Values

/// The names of the forms, in the order of NodeForm's alternatives.
constexpr std::array<const char*, std::variant_size_v<NodeForm>> kForms{"alone", "started", "peer"};

NodeForm form_named(const std::string& word) {
  if (word == kForms[0]) return AloneNode{};
  if (word == kForms[1]) return StartedNode{};
  if (word == kForms[2]) return PeerNode{};
  throw std::invalid_argument("unknown form of a node: " + word);
}

rendezvous::RestartRule restart_policy_from(const std::string& word) {
  if (const auto rule = rendezvous::restart_rule(word)) return *rule;
  throw std::invalid_argument("unknown restart policy: " + word);
}

rendezvous::HangAction hang_action_from(const std::string& word) {
  if (const auto action = rendezvous::hang_action(word)) return *action;
  throw std::invalid_argument("unknown action on a hang: " + word);
}

// JSON holds UTF-8 only, arguments and paths hold any bytes: bytes from 0x80 travel as the code point of that
// number.
std::string utf8_from_bytes(const std::string& bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xc0 | (byte >> 6));
      text += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return text;
}

std::string bytes_from_utf8(const std::string& text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80 || i + 1 == text.size()) {
      bytes += text[i];
    } else {
      bytes += static_cast<char>(((byte & 0x03) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3f));
    }
  }
  return bytes;
}

template <typename Value>
constexpr bool kIsOptional = false;
template <typename Value>
constexpr bool kIsOptional<std::optional<Value>> = true;

template <typename Value>
constexpr bool kIsPair = false;
template <typename First, typename Second>
constexpr bool kIsPair<std::pair<First, Second>> = true;

/// Writes a value as JSON; with `bytes`, texts in it are any bytes.
template <bool bytes, typename Value>
Json written(const Value& value);

template <bool bytes, typename Value>
Value read(const Json& json);

struct Writer {
  Json& object;

  template <typename Field>
  void operator()(const char* name, const Field& field) const {
    object[name] = written<false>(field);
  }

  template <typename Field>
  void bytes(const char* name, const Field& field) const {
    object[name] = written<true>(field);
  }

  /// Writes into the object that was written under this name.
  Writer inside(const char* name) const { return {object[name]}; }

  /// Writes the fields of a form beside its name.
  void one_of(const char* name, const NodeForm& form) const {
    object[name] = kForms[form.index()];
    std::visit([this](const auto& known) { fields(known, *this); }, form);
  }
};

struct Reader {
  const Json& object;

  template <typename Field>
  void operator()(const char* name, Field& field) const {
    take<false>(name, field);
  }

  template <typename Field>
  void bytes(const char* name, Field& field) const {
    take<true>(name, field);
  }

  Reader inside(const char* name) const { return {object.at(name)}; }

  void one_of(const char* name, NodeForm& form) const {
    std::string word;
    take<false>(name, word);
    form = form_named(word);
    std::visit([this](auto& known) { fields(known, *this); }, form);
  }

 private:
  template <bool bytes, typename Field>
  void take(const char* name, Field& field) const {
    try {
      field = read<bytes, Field>(object.at(name));
    } catch (const std::exception& error) {
      throw std::invalid_argument(std::string(name) + ": " + error.what());
    }
  }
};

template <bool bytes, typename Value>
Json written(const Value& value) {
  if constexpr (std::is_same_v<Value, std::string>) {
    return bytes ? utf8_from_bytes(value) : value;
  } else if constexpr (std::is_same_v<Value, milliseconds>) {
    return value.count();
  } else if constexpr (std::is_same_v<Value, rendezvous::RestartRule> ||
                       std::is_same_v<Value, rendezvous::HangAction>) {
    return rendezvous::name_of(value);
  } else if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, rendezvous::Settings>) {
    return value;
  } else if constexpr (kIsOptional<Value>) {
    return value ? written<bytes>(*value) : Json(nullptr);
  } else if constexpr (kIsPair<Value>) {
    return Json::array({written<bytes>(value.first), written<bytes>(value.second)});
  } else if constexpr (std::ranges::range<Value>) {
    Json items = Json::array();
    for (const auto& item : value) items.push_back(written<bytes>(item));
    return items;
  } else {
    Json object = Json::object();
    fields(value, Writer{object});
    return object;
  }
}

template <bool bytes, typename Value>
Value read(const Json& json) {
  if constexpr (std::is_same_v<Value, std::string>) {
    return bytes ? bytes_from_utf8(json.get<std::string>()) : json.get<std::string>();
  } else if constexpr (std::is_same_v<Value, milliseconds>) {
    return milliseconds(json.get<std::int64_t>());
  } else if constexpr (std::is_same_v<Value, rendezvous::RestartRule>) {
    return restart_policy_from(json.get<std::string>());
  } else if constexpr (std::is_same_v<Value, rendezvous::HangAction>) {
    return hang_action_from(json.get<std::string>());
  } else if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, rendezvous::Settings>) {
    return json.get<Value>();
  } else if constexpr (kIsOptional<Value>) {
    return json.is_null() ? Value() : Value(read<bytes, typename Value::value_type>(json));
  } else if constexpr (kIsPair<Value>) {
    return Value(read<bytes, std::remove_const_t<typename Value::first_type>>(json.at(0)),
                 read<bytes, typename Value::second_type>(json.at(1)));
  } else if constexpr (std::ranges::range<Value>) {
    Value items;
    for (const Json& item : json.get_ref<const Json::array_t&>())
      items.insert(items.end(), read<bytes, typename Value::value_type>(item));
    return items;
  } else {
    Value object;
    fields(object, Reader{json});
    return object;
  }
}

}  // namespace

std::string to_json(const AgentSpec& spec) {
  return written<false>(spec).dump(-1, ' ', false, Json::error_handler_t::replace);
}

AgentSpec agent_spec_from_json(const std::string& text) {
  try {
    return read<false, AgentSpec>(Json::parse(text));
  } catch (const std::exception& error) {
    throw std::invalid_argument(std::string("agent spec: ") + error.what());
  }
}

}  // namespace muster::agent
