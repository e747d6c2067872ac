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

/// A time on the monotonic clock of one process; the clocks of two nodes are never compared.
using TimePoint = std::chrono::steady_clock::time_point;
using Milliseconds = std::chrono::milliseconds;

/// The address at which a store listens.
struct Endpoint {
  std::string host;
  int port = 0;
  bool operator==(const Endpoint&) const = default;
};

/// Where the store of each round is to listen.
struct StoreSpec {
  /// The local address to listen on. Default: loopback, since one machine needs no other.
  std::string host = "127.0.0.1";
  /// The port to listen on. 0: any free port, a new one each round. Otherwise the same port in every round.
  int port = 0;
  /// Whether only connections are admitted whose peer socket belongs to our user (--store-admission
  /// user|off). Default: true.
  bool same_user_only = true;
};

}  // namespace muster::rendezvous
