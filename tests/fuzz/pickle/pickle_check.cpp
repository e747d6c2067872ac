// SPDX-License-Identifier: Apache-2.0
#include "agent/core/flight_record.hpp"
#include "tests/fuzz/checks.hpp"

#include <stdexcept>

using namespace muster::agent;
using muster::fuzz::require;

bool muster::fuzz::check_pickle_input(std::string_view input) {
  try {
    const FlightRank record = read_flight_record(input, 0, {});
    require(record.groups.size() <= kFlightGroupsMax, "a record has no more groups than are read");
    for (const FlightGroup& group : record.groups) {
      require(!group.ranks.empty() && group.ranks.size() <= kFlightMembersMax, "a group has its members");
      require(group.calls.size() <= kFlightCallsMax, "a group has the first calls that are not complete");
      for (const FlightCall& call : group.calls) {
        require(call.sequence <= group.last, "no call comes after the last");
        for (const std::string& text : {call.name, call.inputs, call.outputs, call.types, call.state})
          require(text.size() < 200, "texts of other processes are short");
      }
    }
    FlightRank other = record;
    other.rank = 1;
    require(match_flight_records({record, other}).size() <= kFlightLinesMax, "a few lines say it all");
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}
