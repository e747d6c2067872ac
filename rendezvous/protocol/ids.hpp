// SPDX-License-Identifier: Apache-2.0
// The few plain types that every part of the rendezvous speaks of.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace muster::rendezvous {

/// A node's name, unique among the living nodes of a job.
using NodeName = std::string;

/// Rounds of a job count from 0; a number is never used twice.
using RoundNumber = int;

/// One control connection, counted from 1 by whoever accepts it; never used twice.
using SessionId = std::uint64_t;

/// Monotonic and local to one process: two nodes' clocks are never compared.
using TimePoint = std::chrono::steady_clock::time_point;
using Milliseconds = std::chrono::milliseconds;

/// Where a store listens.
struct Endpoint {
  std::string host;
  int port = 0;
  bool operator==(const Endpoint&) const = default;
};

}  // namespace muster::rendezvous
