// SPDX-License-Identifier: Apache-2.0
// Writes the status of a process into its status file.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/status/layout.hpp"
#include "worker_sdk/status/status_file.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

namespace muster::status {

/// The present time on the clock of all times in a status file: CLOCK_MONOTONIC, the same for all processes
/// of a host.
std::uint64_t monotonic_ns();

/// The FNV-1a hash of a name, but never 0.
std::uint64_t hash_of(std::string_view name);

/// The rank that writes.
struct Writer {
  int rank = 0;
  int size = 1;
  int round = 0;
};

/// Sets for which rank a file was made; the process that takes the file must have the same rank. The maker
/// calls this before any other process sees the file.
void reserve(Page& page, const Writer& writer);

/// Adds up the time during which a process is in any call. Any thread; tens of nanoseconds.
class CallClock {
 public:
  /// `page` outlives this object; the sum is in it.
  explicit CallClock(Page& page) : total_(page.identity.calls_ns) {}

  /// A group's call has begun, or its last one has ended, at `now`.
  void begin(std::uint64_t now);
  void end(std::uint64_t now);

  /// The sum at `now`, calls that are under way included.
  std::uint64_t total(std::uint64_t now) const;

 private:
  Word& total_;
  /// The groups that are in a call, and when the first of them began its own.
  Word open_{0};
  Word since_{0};
};

class StatusWriter;

/// Writes the record of one group. One thread at a time; entering() and completed() take tens of nanoseconds.
class GroupWriter {
 public:
  /// `record` may be null: then only the ring is written. `page`, `record` and `clock` outlive this object.
  GroupWriter(Page& page, GroupRecord* record, std::uint64_t name_hash,
              std::chrono::milliseconds report_after, CallClock& clock);

  void joined();
  void entering(const Call& call);
  void completed(const Call& call);
  void failed(const Call* call, ErrorCode code);

  const GroupRecord* record() const { return record_; }

 private:
  friend class StatusWriter;

  void begin_write();
  void end_write();
  void write_state(GroupState state, std::uint64_t code, std::uint64_t now);
  void write_call(const Call& call, std::uint64_t now);
  void remember(const Call& call, std::uint64_t now);
  void finish(std::uint64_t ticket, CallState state, std::uint64_t code, std::uint64_t now);
  void stop_clock(std::uint64_t now);

  Page& page_;
  GroupRecord* record_;
  std::uint64_t name_hash_;
  std::uint64_t report_after_;  ///< the time in the form of GroupRecord::state
  std::uint64_t version_ = 0;
  std::vector<std::uint64_t> open_;  ///< tickets of the calls that have not finished, in order
  std::size_t next_open_ = 0;
  CallClock& clock_;
  bool in_call_ = false;
};

/// The writing side of a file that this process has taken. Any thread.
class StatusWriter {
 public:
  /// Takes the file for this process. Null if another living process or another world of this process has it,
  /// or it was made for another rank.
  static std::unique_ptr<StatusWriter> claim(StatusFile file, const Writer& writer);
  ~StatusWriter();
  StatusWriter(const StatusWriter&) = delete;
  StatusWriter& operator=(const StatusWriter&) = delete;

  /// Shows a group that is being made. Only kGroups groups have a record at a time.
  std::unique_ptr<GroupWriter> open_group(std::string_view name, int rank, int size,
                                          std::chrono::milliseconds report_after = std::chrono::seconds(15));
  void close_group(GroupWriter& group);
  void set_step(std::uint64_t step);

  const StatusFile& file() const { return file_; }

 private:
  explicit StatusWriter(StatusFile file) : file_(std::move(file)), clock_(file_.page()) {}

  StatusFile file_;
  CallClock clock_;
  std::mutex mutex_;
};

}  // namespace muster::status
