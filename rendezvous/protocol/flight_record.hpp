// SPDX-License-Identifier: Apache-2.0
// What PyTorch's flight recorder has noted of the collectives of one rank, as far as it is compared with that
// of others. Plain data; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::rendezvous {

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
  /// PyTorch's own name, and the members (none: not known): two groups are the same if both are.
  std::string id{};
  std::vector<int> ranks{};
  /// The collective that this rank has begun last; 0: none.
  std::uint64_t last = 0;
  /// The first that are not complete, at most kFlightCallsMax.
  std::vector<FlightCall> calls{};
  /// Whether the record has lost nothing since the process has begun, so that a group of which it has no call
  /// is one in which the rank has begun none.
  bool whole = false;

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

}  // namespace muster::rendezvous
