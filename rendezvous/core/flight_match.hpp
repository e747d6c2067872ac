// SPDX-License-Identifier: Apache-2.0
// In which collectives the ranks of a job do not match by PyTorch's flight recorder: of a job that has ended,
// and of one that hangs. Pure.
#pragma once

#include "rendezvous/protocol/flight_record.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster::rendezvous {

/// What is said of one group whose ranks do not match.
struct FlightMismatch {
  /// "rank 3 never entered all_reduce 41 of group default_pg; ranks 0-2 wait in it".
  std::string text{};
  /// The ranks that the others wait for, in order: those that never entered, or the few that differ. Empty:
  /// none stands out, or ranks have no record.
  std::vector<int> odd{};
  /// The ranks that have begun that collective and not completed it.
  std::vector<int> waiting{};
  /// Whether the text only says that ranks have no record.
  bool unknown = false;
};

/// Returns a mismatch for each group in whose first collective that is not complete everywhere the ranks do
/// not match. Only ranks whose record is there are judged; those without are named. At most kFlightLinesMax;
/// none if all match.
std::vector<FlightMismatch> find_flight_mismatches(const std::vector<const FlightRank*>& ranks);
std::vector<FlightMismatch> find_flight_mismatches(const std::vector<FlightRank>& ranks);

/// Returns about the bytes of memory that a record takes.
std::size_t memory_of(const FlightRank& record);

/// Returns the texts of all mismatches.
std::vector<std::string> match_flight_records(const std::vector<FlightRank>& ranks);

inline constexpr std::size_t kFlightLinesMax = 8;

}  // namespace muster::rendezvous
