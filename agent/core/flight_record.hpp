// SPDX-License-Identifier: Apache-2.0
// Reads what PyTorch's flight recorder has noted of the collectives of a rank: the files of NCCL's, and the
// answer of a program's control plane, which has Gloo's. Pure.
#pragma once

#include "rendezvous/protocol/flight_record.hpp"

#include <cstddef>
#include <functional>
#include <string_view>

namespace muster::agent {

using rendezvous::FlightCall;
using rendezvous::FlightGroup;
using rendezvous::FlightRank;

/// Reads a dump of one rank (versions 2.x). Messages between two ranks are left out. Throws
/// std::invalid_argument for anything else. `go_on` as for Pickle.
FlightRank read_flight_record(std::string_view bytes, int rank, const std::function<bool()>& go_on);

/// Values in the JSON of a record, and their nesting.
inline constexpr std::size_t kFlightJsonValues = std::size_t{1} << 18U;
inline constexpr int kFlightJsonDepth = 16;

/// The same for the JSON with which a program's control plane answers ("fr_trace_json"): what Gloo's recorder
/// has noted. It knows no members, and only groups in which the rank has made a collective, besides that of
/// all ranks. Groups have another id than those of the same name over NCCL, which count their own
/// collectives.
FlightRank read_flight_json(std::string_view text, int rank, const std::function<bool()>& go_on);

}  // namespace muster::agent
