// SPDX-License-Identifier: Apache-2.0
#include "agent/core/link_text.hpp"

#include <nlohmann/json.hpp>

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
