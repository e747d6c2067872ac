// SPDX-License-Identifier: Apache-2.0
// What is kept of a job that has ended, for whoever asks later. Pure.
#pragma once

#include "launcher/inspect/core/job_card.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

/// How long a record is kept, and how many are: the oldest go first.
inline constexpr std::chrono::hours kEndedKeptFor{24};
inline constexpr std::size_t kEndedMost = 100;
/// Most bytes of a record.
inline constexpr std::size_t kEndedBytesMax = 2 * kCardBytesMax;

struct EndedJob {
  JobCard card;
  int exit_code = 0;
  /// The first line of the report's cause; empty after a success.
  std::string cause;
  /// The file of --report; empty: there is none.
  std::string report;
  /// Milliseconds since 1970.
  std::int64_t ended_at_ms = 0;
  /// CPU time of all processes of the job, and the largest memory that one of them had, in milliseconds and
  /// bytes. 0: not known, as of a job on several hosts.
  std::int64_t cpu_ms = 0;
  std::uint64_t memory_peak = 0;
};

/// Write a record as one line of JSON of at most kEndedBytesMax bytes, for which the cause may be cut off,
/// and read it. Reading throws std::invalid_argument.
std::string to_json(const EndedJob& job);
EndedJob ended_job_from_json(const std::string& text);

/// Returns the record as the answer of `muster status --json`.
std::string status_json(const EndedJob& job);

/// Whether a record is too old to be kept.
bool is_over(std::int64_t ended_at_ms, std::int64_t now_ms);

/// Returns the job among those that `text` names best which ended last; nullopt if it names none, or several
/// by a beginning.
std::optional<EndedJob> ended_job_named(const std::vector<EndedJob>& jobs, const std::string& text);

}  // namespace muster::launcher
