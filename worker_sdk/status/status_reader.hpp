// SPDX-License-Identifier: Apache-2.0
// Reads the status file of another process.
#pragma once

#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/status/layout.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::status {

/// One group of a process at one moment. Plain data, like all structures below.
struct GroupStatus {
  std::uint64_t name_hash = 0;
  std::string name;  ///< name of the group: printable, at most kNameBytes
  int rank = 0;
  int size = 0;
  GroupState state = GroupState::none;
  int error_code = 0;  ///< ErrorCode of the failure, when failed
  bool gone = false;
  /// Whether the record was read in the middle of a write that did not end, so that fields of two calls may
  /// be mixed.
  bool torn = false;
  /// The time after which a waiting call is to be reported; 0: never.
  std::chrono::milliseconds report_after{0};
  Call call;  ///< the call entered last; sequence 0 before the first
  std::uint64_t completed = 0;
  std::uint64_t entered_ns = 0;
  std::uint64_t changed_ns = 0;
};

struct RecentCall {
  std::uint64_t name_hash = 0;
  Call call;
  CallState state = CallState::running;
  int error_code = 0;
  std::uint64_t entered_ns = 0;
  std::uint64_t finished_ns = 0;
};

struct RankStatus {
  ProcessPhase phase = ProcessPhase::unclaimed;
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;
  int rank = 0;
  int size = 0;
  int round = 0;
  std::uint64_t step = 0;
  /// When the program told that step, and the time during which it had been in any call until then; step_ns
  /// is 0 if it has told none, or its SDK does not tell this.
  std::uint64_t step_ns = 0;
  std::uint64_t step_calls_ns = 0;
  /// The number of calls that were begun so far, and the time during which the process had been in any call
  /// until the last one ended.
  std::uint64_t calls = 0;
  std::uint64_t calls_ns = 0;
  std::vector<GroupStatus> groups;
};

/// Whether any process has ever taken the file. Costs one load.
bool is_claimed(const Page& page);

/// The present status in the file. Its writer may be alive, dead in the middle of a write, or hostile: every
/// value is brought into its range, and the call never waits.
RankStatus read_status(const Page& page);

/// The last calls, oldest first, at most `limit`.
std::vector<RecentCall> read_recent(const Page& page, std::size_t limit = kRing);

}  // namespace muster::status
