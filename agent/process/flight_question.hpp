// SPDX-License-Identifier: Apache-2.0
// Asks running programs for what PyTorch's flight recorder has noted: through the socket of their control
// plane, or the pipe of NCCL's recorder. Waits, so it is for a helper thread.
#pragma once

#include "rendezvous/protocol/flight_record.hpp"

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace muster::agent {

/// Where the recorder of one rank is asked. Empty paths: not there.
struct FlightSource {
  int rank = 0;
  /// The Unix socket of the program's control plane, and the processes that may be behind it.
  std::string socket{};
  std::vector<pid_t> pids{};
  /// The pipe of NCCL's recorder, and the file that it then writes.
  std::string pipe{};
  std::string file{};
};

/// What the recorder of a rank has answered.
struct FlightAnswer {
  rendezvous::FlightRank record{};
  /// Whether it came through the pipe; false: through the socket.
  bool by_pipe = false;
};

struct FlightAnswers {
  std::vector<FlightAnswer> answers{};
  /// Ranks whose recorder was asked and has not answered in time, but may do so yet.
  std::vector<int> late{};
};

/// How long it is waited for all answers through sockets, and then for all files.
inline constexpr std::chrono::milliseconds kControlPlaneAnswersWithin{1000};
inline constexpr std::chrono::milliseconds kFlightFilesWithin{2000};
/// Bytes of one answer, of all of them together, and of one file.
inline constexpr std::size_t kControlPlaneBytesMax = std::size_t{4} << 20U;
inline constexpr std::size_t kControlPlaneBytesOfAllMax = std::size_t{64} << 20U;
inline constexpr std::size_t kFlightFileBytesMax = std::size_t{16} << 20U;

/// Asks all sources at the same time; returns what the ranks have answered in time that are known. Nothing
/// else waits: a program that does not answer (it is stopped, or nobody listens) has no record. A socket or a
/// pipe of another user, or of another process, is not spoken to. Ends soon when `go_on` says no. Throws
/// nothing but std::bad_alloc.
FlightAnswers ask_flight_recorders(const std::vector<FlightSource>& sources,
                                   const std::function<bool()>& go_on);

}  // namespace muster::agent
