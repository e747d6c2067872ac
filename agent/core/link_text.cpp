// SPDX-License-Identifier: Apache-2.0
#include "agent/core/link_text.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <stdexcept>

namespace muster::agent {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeHello, version, host, pid, addresses, cpus, gpus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LinkEndpoint, host, port)

namespace {

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename Value>
Value parsed(const std::string& text, const char* what) {
  try {
    return Json::parse(text).get<Value>();
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string(what) + ": " + error.what());
  }
}

}  // namespace

std::string link_greeting(std::string_view version) {
  return "\nmuster-agent " + std::to_string(kLinkProtocol) + " " + std::string(version) + "\n";
}

std::string to_json(const StopOrder& order) {
  Json json = Json::object();
  if (!order.reason.empty()) json["reason"] = order.reason;
  if (order.grace) json["grace_ms"] = order.grace->count();
  return dump(json);
}

StopOrder stop_order_from_json(const std::string& text) {
  if (text.empty()) return {};  // as earlier versions send it
  const auto json = parsed<std::map<std::string, Json>>(text, "an order to stop");
  try {
    StopOrder order;
    if (const auto reason = json.find("reason"); reason != json.end()) reason->second.get_to(order.reason);
    if (const auto grace = json.find("grace_ms"); grace != json.end()) {
      const auto count = grace->second.get<std::int64_t>();
      if (count < 0 || count > kGraceMost.count())
        throw std::invalid_argument("an order to stop: " + std::to_string(count) + " ms are no grace period");
      order.grace = std::chrono::milliseconds(count);
    }
    return order;
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string("an order to stop: ") + error.what());
  }
}

std::string to_json(const NodeHello& hello) {
  return dump(hello);
}

NodeHello node_hello_from_json(const std::string& text) {
  return parsed<NodeHello>(text, "a node's hello");
}

std::string to_json(const LinkEndpoint& endpoint) {
  return dump(endpoint);
}

LinkEndpoint link_endpoint_from_json(const std::string& text) {
  return parsed<LinkEndpoint>(text, "the coordinator's address");
}

}  // namespace muster::agent
