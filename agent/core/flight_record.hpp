// SPDX-License-Identifier: Apache-2.0
// What PyTorch's NCCL flight recorder has noted of the collectives of each rank, and which ranks do not match
// the others. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// A collective that a rank has not completed.
struct FlightCall {
  std::uint64_t sequence = 0;
  /// "all_reduce".
  std::string name{};
  /// "[[4, 8]]", as Python prints it; long ones are cut.
  std::string inputs{};
  std::string outputs{};
  std::string types{};
  /// "scheduled", "started".
  std::string state{};

  bool operator==(const FlightCall&) const = default;
};

/// A group of ranks as one of them knows it.
struct FlightGroup {
  /// "default_pg", or PyTorch's own name where it has no other.
  std::string name{};
  /// PyTorch's own name, and the members: two groups are the same if both are.
  std::string id{};
  std::vector<int> ranks{};
  /// The collective that this rank has begun last; 0: none.
  std::uint64_t last = 0;
  /// The first that are not complete, at most kFlightCallsMax.
  std::vector<FlightCall> calls{};

  bool operator==(const FlightGroup&) const = default;
};

struct FlightRank {
  int rank = 0;
  /// At most kFlightGroupsMax.
  std::vector<FlightGroup> groups{};

  bool operator==(const FlightRank&) const = default;
};

inline constexpr std::size_t kFlightCallsMax = 4;
inline constexpr std::size_t kFlightGroupsMax = 16;
/// Most members of a group that are kept; of a larger one nothing is said.
inline constexpr std::size_t kFlightMembersMax = 1024;

/// Reads a dump of one rank (versions 2.x). Messages between two ranks are left out. Throws
/// std::invalid_argument for anything else. `go_on` as for Pickle.
FlightRank read_flight_record(std::string_view bytes, int rank, const std::function<bool()>& go_on);

/// Returns a line for each group in whose first collective that is not complete everywhere the ranks do not
/// match: "rank 3 never entered all_reduce 41 of group default_pg; ranks 0-2 wait in it". Only ranks whose
/// dump is there are judged; those without are named. At most kFlightLinesMax lines; none if all match.
std::vector<std::string> match_flight_records(const std::vector<FlightRank>& ranks);

inline constexpr std::size_t kFlightLinesMax = 8;

}  // namespace muster::agent
