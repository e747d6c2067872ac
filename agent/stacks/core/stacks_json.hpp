// SPDX-License-Identifier: Apache-2.0
// Stacks as JSON, as reports and answers hold them. For sources that write or read JSON.
#pragma once

#include "agent/stacks/core/process_stacks.hpp"

#include <nlohmann/json.hpp>

namespace muster::agent {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Frame, file, line, function)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ThreadStack, tid, is_main, holds_gil, approximate, truncated, frames)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProcessStacks, pid, python, threads, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NativeFrame, function, file, line, module, offset)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NativeThread, tid, name, truncated, error, frames)

/// What was not asked for is not in the object.
inline void to_json(nlohmann::json& json, const ProcessPicture& picture) {
  json = {{"name", picture.name}, {"state", picture.state}, {"stacks", picture.stacks}};
  if (!picture.native) return;
  json["native"] = picture.native->threads;
  json["native_error"] = picture.native->error;
  json["native_longest_stop_us"] = picture.native->longest_stop_us;
}

inline void from_json(const nlohmann::json& json, ProcessPicture& picture) {
  json.at("name").get_to(picture.name);
  json.at("state").get_to(picture.state);
  json.at("stacks").get_to(picture.stacks);
  const auto threads = json.find("native");
  if (threads == json.end()) return;
  NativeStacks& native = picture.native.emplace();
  threads->get_to(native.threads);
  json.at("native_error").get_to(native.error);
  json.at("native_longest_stop_us").get_to(native.longest_stop_us);
}

}  // namespace muster::agent
