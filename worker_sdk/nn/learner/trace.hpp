// SPDX-License-Identifier: Apache-2.0
// What --profile writes: one Chrome trace (chrome://tracing, Perfetto) of all ranks, and who arrives last.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/bucket_reducer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::train {

/// Rows of a rank in the trace. Units of a model in shards are gathered beside the sums of gradients.
enum class Lane : std::uint8_t { compute, communication, gathering };

/// Records what one rank does and when, up to a bound; then counts what it leaves out. One thread.
class TraceRecorder {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Records at most `capacity` spans (32 bytes each).
  explicit TraceRecorder(std::size_t capacity = 200'000) : capacity_(capacity) {}

  /// Records a span. `name` is a literal.
  void span(const char* name, Lane lane, Time begin, Time end, std::int64_t step);
  /// Records when the buckets of a step were reduced, by calls of that name (a literal), and stepped.
  void buckets(const StepTiming& timing, const char* call, std::int64_t step);

  /// Records how long this rank waited, from its last gradient until all ranks had summed it. The rank that
  /// arrives last waits the shortest; no two clocks are compared.
  void arrival(std::chrono::nanoseconds waited) {
    waits_.push_back(static_cast<double>(waited.count()) * 1e-9);
  }

  /// The spans as JSON objects, one a line, times in microseconds from `origin`.
  std::string events(int rank, Time origin) const;

  const std::vector<double>& waits() const { return waits_; }

  std::size_t left_out() const { return left_out_; }

  /// Whether there are spans in a row.
  bool uses(Lane lane) const {
    return std::any_of(spans_.begin(), spans_.end(), [lane](const Span& span) { return span.lane == lane; });
  }

 private:
  struct Span {
    const char* name;
    Time begin;
    std::chrono::nanoseconds length;
    std::int32_t step;
    Lane lane;
  };

  const std::size_t capacity_;
  std::vector<Span> spans_;
  std::vector<double> waits_;
  std::size_t left_out_ = 0;
};

/// The rank that arrives last most often, over the steps of a run.
struct Straggler {
  int rank = 0;
  std::int64_t steps = 0;  ///< steps in which it was the last
  std::int64_t of = 0;     ///< steps looked at
  double lateness = 0;     ///< seconds by which it came after the first, mean over those steps
};

/// `waits[rank][step]` as TraceRecorder::arrival() has them, equally many for each rank.
Straggler find_straggler(const std::vector<std::vector<double>>& waits);
/// "rank 1 arrives last in 87 of 100 steps, 3.2 ms after the first on average"; for a world of one that there
/// is nobody to wait for; where no rank recorded its waits, as on a GPU, that it is not known.
std::string describe(const Straggler& straggler, int ranks);

/// A moment that all ranks share, by the clock of each: the end of a barrier. Ranks of one node have one
/// clock, so for them it is the same number, however long one of them was kept from looking at it. A
/// collective call.
TraceRecorder::Time shared_origin(ProcessGroup* group, int node, int nodes);

/// Throws Error (io) where write_trace() could not write there now. Leaves what is there as it is.
void require_trace_place(const std::string& path);

/// Rank 0 writes the trace of all ranks to `path`, aligned at shared_origin() of each rank. Returns
/// describe() on every rank. A collective call; null: a world of one. Throws Error (io), on rank 0, that
/// names the file.
std::string write_trace(const std::string& path, const TraceRecorder& recorder, TraceRecorder::Time origin,
                        const std::string& host, ProcessGroup* group);

}  // namespace muster::train
