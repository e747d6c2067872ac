// SPDX-License-Identifier: Apache-2.0
// What the time of a job went into, as JSON. For sources that write or read JSON.
#pragma once

#include "launcher/core/time_shares.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>

namespace muster::launcher {

template <typename Json>
Json json_of(const TimeShares& shares) {
  return {{"useful_ms", shares.useful.count()},       {"start_ms", shares.start.count()},
          {"detect_ms", shares.detect.count()},       {"restart_ms", shares.restart.count()},
          {"recompute_ms", shares.recompute.count()}, {"end_ms", shares.end.count()},
          {"recompute_is_at_most", shares.at_most}};
}

/// Throws nlohmann::json::exception.
inline TimeShares shares_from(const nlohmann::json& json) {
  const auto time = [&json](const char* name) {
    return std::chrono::milliseconds(json.at(name).get<std::int64_t>());
  };
  return {time("useful_ms"),
          time("start_ms"),
          time("detect_ms"),
          time("restart_ms"),
          time("recompute_ms"),
          time("end_ms"),
          json.at("recompute_is_at_most").get<bool>()};
}

}  // namespace muster::launcher
