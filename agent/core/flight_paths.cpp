// SPDX-License-Identifier: Apache-2.0
#include "agent/core/flight_paths.hpp"

#include <algorithm>
#include <iterator>

namespace muster::agent {
namespace {

constexpr const char* kFile = "/flight_record_round";
constexpr const char* kPipe = "/flight_round";
constexpr std::string_view kRank = "_rank";

/// Whether the path ends with `name`, a number, and what is before the rank.
bool ends_as(std::string_view path, std::string_view name) {
  if (!path.ends_with(kRank)) return false;
  path.remove_suffix(kRank.size());
  const std::size_t digits = path.find_last_not_of("0123456789") + 1;
  return digits < path.size() && path.substr(0, digits).ends_with(name);
}

}  // namespace

std::string flight_file(const std::string& folder, rendezvous::RoundNumber round) {
  return folder + kFile + std::to_string(round) + std::string(kRank);
}

std::string flight_pipe(const std::string& folder, rendezvous::RoundNumber round) {
  return folder + kPipe + std::to_string(round) + std::string(kRank);
}

bool is_of_outer_job(std::string_view name, std::string_view value) {
  if (name == kFlightPipeVariable) return ends_as(value, kPipe);
  const bool is_file = std::find(std::begin(kFlightFileVariables), std::end(kFlightFileVariables), name) !=
                       std::end(kFlightFileVariables);
  return is_file && ends_as(value, kFile);
}

}  // namespace muster::agent
