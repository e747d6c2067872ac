// SPDX-License-Identifier: Apache-2.0
#include "launcher/tree/core/tree_json.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <set>
#include <stdexcept>

namespace muster::launcher {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SshTarget, host, user, port)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SshClient, words, config_file, accept_new_host_keys, connect_timeout_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BranchPlan::Node, index, parent, name, target)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BranchPlan, client, agent_command, branch_command, push, login_timeout_ms,
                                   nodes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StartEnd, timed_out, exit_code, signal, errors, junk, too_much_junk,
                                   version_there, lost_through, broken)

namespace {

/// As on the command line.
constexpr std::int64_t kLoginTimeoutMaxMs = 100'000'000'000;

/// No field has one, and what is too large for an integer would be converted to anything.
bool refuse_fractions(int /*depth*/, Json::parse_event_t /*event*/, Json& value) {
  if (value.is_number_float()) throw std::invalid_argument("a number that is no integer: " + value.dump());
  return true;
}

template <typename Value>
Value parsed(const std::string& text, const char* what) {
  try {
    return Json::parse(text, refuse_fractions).get<Value>();
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string(what) + ": " + error.what());
  }
}

/// What others said may be no UTF-8.
std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const BranchPlan& plan) {
  return dump(plan);
}

BranchPlan branch_plan_from_json(const std::string& text) {
  auto plan = parsed<BranchPlan>(text, "the hosts to start");
  if (plan.nodes.empty()) throw std::invalid_argument("the hosts to start: none");
  if (plan.login_timeout_ms < 1 || plan.login_timeout_ms > kLoginTimeoutMaxMs ||
      plan.client.connect_timeout_s < 1)
    throw std::invalid_argument("the hosts to start: a login timeout of " +
                                std::to_string(plan.login_timeout_ms) + " ms");
  std::set<long> known;
  for (const BranchPlan::Node& node : plan.nodes) {
    const bool is_root = &node == &plan.nodes.front();
    const bool is_new = node.index <= 0x7fffffffU && known.insert(static_cast<long>(node.index)).second;
    if (!is_new || (!is_root && (node.parent < 0 || !known.contains(node.parent) ||
                                 node.parent == static_cast<long>(node.index))))
      throw std::invalid_argument("the hosts to start: node " + std::to_string(node.index) +
                                  " is listed twice, or before the one that starts it");
  }
  return plan;
}

std::string to_json(const StartEnd& end) {
  return dump(end);
}

StartEnd start_end_from_json(const std::string& text) {
  return parsed<StartEnd>(text, "the end of a login");
}

}  // namespace muster::launcher
