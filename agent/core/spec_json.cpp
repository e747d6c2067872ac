// SPDX-License-Identifier: Apache-2.0
#include "agent/core/agent_spec.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <stdexcept>

namespace muster::agent {
namespace {

using Json = nlohmann::json;

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

Json to_value(const std::vector<std::string>& strings) {
  Json value = Json::array();
  for (const std::string& bytes : strings) value.push_back(utf8_from_bytes(bytes));
  return value;
}

std::vector<std::string> strings_from(const Json& value) {
  std::vector<std::string> strings;
  for (const Json& text : value) strings.push_back(bytes_from_utf8(text.get<std::string>()));
  return strings;
}

Json to_value(const std::vector<std::pair<std::string, std::string>>& environment) {
  Json value = Json::array();
  for (const auto& [name, text] : environment)
    value.push_back({utf8_from_bytes(name), utf8_from_bytes(text)});
  return value;
}

Json to_value(const StreamsByRank& streams) {
  Json by_rank = Json::array();
  for (const auto& [rank, bits] : streams.by_rank) by_rank.push_back({rank, bits});
  return {{"fallback", streams.fallback}, {"by_rank", by_rank}};
}

StreamsByRank streams_from(const Json& value) {
  StreamsByRank streams;
  streams.fallback = value.at("fallback").get<unsigned>();
  for (const Json& entry : value.at("by_rank"))
    streams.by_rank[entry.at(0).get<int>()] = entry.at(1).get<unsigned>();
  return streams;
}

Json to_value(const OutputSpec& output) {
  Json value = {{"log_dir", utf8_from_bytes(output.log_dir)},
                {"log_dir_is_temporary", output.log_dir_is_temporary},
                {"redirects", to_value(output.redirects)},
                {"tee", to_value(output.tee)},
                {"line_prefix_template", utf8_from_bytes(output.line_prefix_template)},
                {"stdout_filters", to_value(output.stdout_filters)},
                {"stderr_filters", to_value(output.stderr_filters)},
                {"rank_prefix", output.rank_prefix},
                {"raw_output", output.raw_output},
                {"gather_logs", output.gather_logs}};
  value["console_ranks"] = output.console_ranks ? Json(*output.console_ranks) : Json(nullptr);
  return value;
}

OutputSpec output_from(const Json& value) {
  OutputSpec output;
  output.log_dir = bytes_from_utf8(value.at("log_dir").get<std::string>());
  value.at("log_dir_is_temporary").get_to(output.log_dir_is_temporary);
  output.redirects = streams_from(value.at("redirects"));
  output.tee = streams_from(value.at("tee"));
  output.line_prefix_template = bytes_from_utf8(value.at("line_prefix_template").get<std::string>());
  output.stdout_filters = strings_from(value.at("stdout_filters"));
  output.stderr_filters = strings_from(value.at("stderr_filters"));
  value.at("rank_prefix").get_to(output.rank_prefix);
  value.at("raw_output").get_to(output.raw_output);
  value.at("gather_logs").get_to(output.gather_logs);
  if (const Json& ranks = value.at("console_ranks"); !ranks.is_null())
    output.console_ranks = ranks.get<std::set<int>>();
  return output;
}

constexpr std::array<std::pair<NodeSpec::Form, const char*>, 3> kForms{
    {{NodeSpec::Form::alone, "alone"}, {NodeSpec::Form::started, "started"}, {NodeSpec::Form::peer, "peer"}}};

NodeSpec::Form form_from(const std::string& word) {
  for (const auto& [form, candidate] : kForms)
    if (word == candidate) return form;
  throw std::invalid_argument("agent spec: unknown form of a node: " + word);
}

rendezvous::RestartRule restart_policy_from(const std::string& word) {
  if (const auto rule = rendezvous::restart_rule(word)) return *rule;
  throw std::invalid_argument("agent spec: unknown restart policy: " + word);
}

Json to_value(const NodeSpec& node) {
  return {{"form", kForms[static_cast<std::size_t>(node.form)].second},
          {"name", node.name},
          {"incarnation", node.incarnation},
          {"node_rank", node.node_rank},
          {"coordinator", node.coordinator},
          {"listen_host", node.listen_host},
          {"listen_port", node.listen_port},
          {"interface_name", node.interface_name},
          {"peers", node.peers},
          {"coordinator_host", node.coordinator_host},
          {"coordinator_port", node.coordinator_port},
          {"hosting_inferred", node.hosting_inferred},
          {"local_addr", node.local_addr},
          {"expected_nodes", node.expected_nodes},
          {"settings", node.settings},
          {"key_source", utf8_from_bytes(node.key_source)},
          {"munge", node.munge},
          {"store_proxy", node.store_proxy}};
}

NodeSpec node_from(const Json& value) {
  NodeSpec node;
  node.form = form_from(value.at("form").get<std::string>());
  value.at("name").get_to(node.name);
  value.at("incarnation").get_to(node.incarnation);
  value.at("node_rank").get_to(node.node_rank);
  value.at("coordinator").get_to(node.coordinator);
  value.at("listen_host").get_to(node.listen_host);
  value.at("listen_port").get_to(node.listen_port);
  value.at("interface_name").get_to(node.interface_name);
  value.at("peers").get_to(node.peers);
  value.at("coordinator_host").get_to(node.coordinator_host);
  value.at("coordinator_port").get_to(node.coordinator_port);
  value.at("hosting_inferred").get_to(node.hosting_inferred);
  value.at("local_addr").get_to(node.local_addr);
  value.at("expected_nodes").get_to(node.expected_nodes);
  value.at("settings").get_to(node.settings);
  node.key_source = bytes_from_utf8(value.at("key_source").get<std::string>());
  value.at("munge").get_to(node.munge);
  value.at("store_proxy").get_to(node.store_proxy);
  return node;
}

std::chrono::milliseconds milliseconds_from(const Json& value, const char* field) {
  return std::chrono::milliseconds(value.at(field).get<std::int64_t>());
}

}  // namespace

std::string to_json(const AgentSpec& spec) {
  return Json{
      {"run_id", spec.run_id},
      {"role", spec.role},
      {"host", spec.host},
      {"min_nodes", spec.min_nodes},
      {"max_nodes", spec.max_nodes},
      {"workers", spec.workers},
      {"command", to_value(spec.command)},
      {"first_script_argument", spec.first_script_argument},
      {"working_directory", utf8_from_bytes(spec.working_directory)},
      {"environment", to_value(spec.environment)},
      {"unset_environment", to_value(spec.unset_environment)},
      {"stdin_rank", spec.stdin_rank},
      {"bind_to", spec.bind_to},
      {"numa_binding", spec.numa_binding},
      {"virtual_local_rank", spec.virtual_local_rank},
      {"max_restarts", spec.max_restarts},
      {"restart_policy", rendezvous::name_of(spec.restart_policy)},
      {"shutdown_timeout_ms", spec.shutdown_timeout.count()},
      {"join_timeout_ms", spec.join_timeout.count()},
      {"last_call_timeout_ms", spec.last_call_timeout.count()},
      {"report_after_ms", spec.report_after ? Json(spec.report_after->count()) : Json(nullptr)},
      {"store",
       {{"host", spec.store.host}, {"port", spec.store.port}, {"same_user_only", spec.store.same_user_only}}},
      {"node", to_value(spec.node)},
      {"output", to_value(spec.output)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

AgentSpec agent_spec_from_json(const std::string& text) {
  try {
    const Json value = Json::parse(text);
    AgentSpec spec;
    value.at("run_id").get_to(spec.run_id);
    value.at("role").get_to(spec.role);
    value.at("host").get_to(spec.host);
    value.at("min_nodes").get_to(spec.min_nodes);
    value.at("max_nodes").get_to(spec.max_nodes);
    value.at("workers").get_to(spec.workers);
    spec.command = strings_from(value.at("command"));
    value.at("first_script_argument").get_to(spec.first_script_argument);
    spec.working_directory = bytes_from_utf8(value.at("working_directory").get<std::string>());
    spec.unset_environment = strings_from(value.at("unset_environment"));
    value.at("stdin_rank").get_to(spec.stdin_rank);
    value.at("bind_to").get_to(spec.bind_to);
    value.at("numa_binding").get_to(spec.numa_binding);
    for (const Json& entry : value.at("environment"))
      spec.environment.emplace_back(bytes_from_utf8(entry.at(0).get<std::string>()),
                                    bytes_from_utf8(entry.at(1).get<std::string>()));
    value.at("virtual_local_rank").get_to(spec.virtual_local_rank);
    value.at("max_restarts").get_to(spec.max_restarts);
    spec.restart_policy = restart_policy_from(value.at("restart_policy").get<std::string>());
    spec.shutdown_timeout = milliseconds_from(value, "shutdown_timeout_ms");
    spec.join_timeout = milliseconds_from(value, "join_timeout_ms");
    spec.last_call_timeout = milliseconds_from(value, "last_call_timeout_ms");
    if (!value.at("report_after_ms").is_null())
      spec.report_after = milliseconds_from(value, "report_after_ms");
    const Json& store = value.at("store");
    store.at("host").get_to(spec.store.host);
    store.at("port").get_to(spec.store.port);
    store.at("same_user_only").get_to(spec.store.same_user_only);
    spec.node = node_from(value.at("node"));
    spec.output = output_from(value.at("output"));
    return spec;
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string("agent spec: ") + error.what());
  }
}

}  // namespace muster::agent
