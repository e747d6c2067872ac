// SPDX-License-Identifier: Apache-2.0
// Where the time of the steps goes, and the memory: figures of one rank, and a table of all. Pure but for the
// group.
#pragma once

#include "worker_sdk/comm/process_group.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::train {

/// Seconds of one step of one rank. All but `communication` follow one another, so they and what is left make
/// the whole step.
struct StepTimes {
  double data_wait = 0;  ///< waiting until the batch was there
  double forward = 0;    ///< the network forward, with the loss
  double backward = 0;
  double late = 0;       ///< waiting for ranks that came later: of one step only what they met for
  double exposed = 0;    ///< communication that backward did not hide: the step waited for it
  double optimizer = 0;  ///< the part that nothing hid
  double total = 0;
  double communication = 0;  ///< all of it, hidden or not, with the wait for late ranks
  double between = 0;        ///< time after the step, up to the next step of the epoch; not in `total`

  StepTimes& operator+=(const StepTimes& other);
};

/// The part of [begin, end) that lies in [from, to).
std::chrono::steady_clock::duration overlap(std::chrono::steady_clock::time_point begin,
                                            std::chrono::steady_clock::time_point end,
                                            std::chrono::steady_clock::time_point from,
                                            std::chrono::steady_clock::time_point to);

/// Bytes of one rank, by what they hold.
struct MemoryTable {
  std::size_t parameters = 0;
  std::size_t gradients = 0;
  std::size_t optimizer_state = 0;
  std::size_t average = 0;  ///< the moving average of the weights (EMA)
  std::size_t activations = 0;
  std::size_t workspace = 0;
  std::size_t data = 0;        ///< the images, and the batches that are prepared
  std::size_t checkpoint = 0;  ///< the copy of the state that is written beside the training
  /// All replicas of the network but the first: parameters, gradients, activations, workspace.
  std::size_t replicas = 0;
  /// What the process had in memory before it made anything of a run; 0: unknown.
  std::size_t empty_process = 0;
  /// Most that the process ever had in memory.
  std::size_t peak_resident = 0;
};

/// Largest resident size of this process so far.
std::size_t peak_resident_bytes();

/// Sums over the steps of a run.
class StepProfile {
 public:
  void add(const StepTimes& step);

  /// Seconds of an epoch that were in none of its steps: logs, copies for checkpoints, comparisons of ranks.
  void add_between(double seconds) { sum_.between += seconds; }

  /// Means of a step over all ranks, in seconds; null or a group of one: of this rank. What a rank was
  /// exposed to is divided: the rank that comes last waits for nobody, so the smallest of all ranks in a step
  /// is communication, and what the others have more is `late`, too. A collective call.
  StepTimes mean(ProcessGroup* group) const;

  std::int64_t steps() const { return steps_; }

 private:
  StepTimes sum_;
  std::int64_t steps_ = 0;
  std::vector<float> exposed_;  ///< `exposed` of each of the first steps, in seconds
};

/// The table of times that ends a run: one line for each part, in ms and percent of the step.
std::string time_table(const StepTimes& mean, std::int64_t steps, int ranks);
/// The table of memory: one line for each kind that is not empty.
std::string memory_table(const MemoryTable& memory);

/// A size as text: "44.7 MB" for 44,700,000.
std::string megabytes(std::size_t bytes);

}  // namespace muster::train
