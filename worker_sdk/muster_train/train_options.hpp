// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/muster_train/data/synthetic.hpp"
#include "worker_sdk/muster_train/run/run.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace muster::examples {

/// The options of muster-train. The defaults are those that --help shows.
struct TrainOptions {
  train::RunOptions run;
  std::string data;
  std::string device = "auto";
  /// Whether the machine chooses the precision: bf16 where what computes is faster with it. `best_on_gpu`:
  /// only if GPUs are taken, which then set the other.
  bool best_precision = false;
  bool best_on_gpu = true;
  int threads = 0;  ///< 0: see choose_threads()
  /// Whether the ranks of a host have a copy of the model together; else all ranks. See choose_shards().
  bool shard_within_host = false;
  /// Images per step of all ranks; 0: what --batch-size and --accumulate make.
  std::int64_t global_batch = 0;
  std::uint64_t seed = 0;
  /// Whether only the memory of a run is estimated, and whether that is told as JSON.
  bool dry_run = false;
  bool json = false;
  /// Sentences about flags that were given and change nothing.
  std::vector<std::string> notes;
  /// The flags that have to be the same on every rank, with their values, a line each.
  std::string common;
};

/// The program is to end at once with this.
struct EarlyExit {
  int code = 0;  ///< 0 after --help, 2 for a usage error
  std::string text;
};

/// Reads flags, and a file of them where --config names one: flags win.
std::variant<TrainOptions, EarlyExit> parse_train_options(int argc, const char* const* argv);

/// What --data asks for where it is "synthetic" or "synthetic:N"; empty: a folder. Throws Error
/// (invalid_argument) for an N that is none.
std::optional<data::SyntheticOptions> synthetic_images(const std::string& data);

/// What is wrong with these options in a job of so many ranks, whatever its images; "" where nothing is.
std::string reason_against(const TrainOptions& options, int ranks);

/// Sets the batch of a rank from --global-batch. Throws Error (invalid_argument) where that does not divide
/// by the ranks and --accumulate, or there is a reason_against() them.
void complete(TrainOptions& options, int ranks);

}  // namespace muster::examples
