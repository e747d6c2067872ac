// SPDX-License-Identifier: Apache-2.0
// What happens to a job, as a line of its event file (--event-file; the schema is in docs/operations.md).
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace muster::launcher {

struct JobEvent {
  using Value = std::variant<std::int64_t, bool, std::string, std::vector<int>, std::vector<std::string>>;

  /// "round_begin", "failure"...
  std::string kind;
  /// What belongs to that kind, in the order in which it is written.
  std::vector<std::pair<std::string, Value>> fields{};
  bool operator==(const JobEvent&) const = default;
};

/// Whose events they are: the job's id, and its --name, which may be empty.
struct EventOrigin {
  std::string job;
  std::string name;
};

/// Most bytes of a line with its end: a pipe takes as many at once or none (PIPE_BUF), so that lines of two
/// writers do not mix.
inline constexpr std::size_t kEventLineMax = 4096;
/// Most ranks in a list.
inline constexpr std::size_t kEventRanksMax = 128;

/// Returns the event as one line of JSON with its end, of at most kEventLineMax bytes; longer texts and lists
/// are cut for that. `time_ms`: milliseconds since 1970.
std::string event_line(const EventOrigin& origin, const JobEvent& event, std::int64_t time_ms);

}  // namespace muster::launcher
