// SPDX-License-Identifier: Apache-2.0
#include "agent/core/flight_record.hpp"
#include "rendezvous/core/flight_match.hpp"
#include "tests/fuzz/checks.hpp"

#include <functional>
#include <stdexcept>
#include <string>

using namespace muster::agent;
using namespace muster::rendezvous;
using muster::fuzz::require;

namespace {

void check_record(const FlightRank& record) {
  require(record.groups.size() <= kFlightGroupsMax, "a record has no more groups than are read");
  for (const FlightGroup& group : record.groups) {
    require(group.ranks.size() <= kFlightMembersMax, "a group has not too many members");
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
}

bool reads(std::string_view input, FlightRank (*read)(std::string_view, int, const std::function<bool()>&)) {
  try {
    check_record(read(input, 0, {}));
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

}  // namespace

bool muster::fuzz::check_pickle_input(std::string_view input) {
  const bool is_json = reads(input, read_flight_json);
  return reads(input, read_flight_record) || is_json;
}
