// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/loop/run.hpp"

#include <cstdint>
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
  /// Images per step of all ranks; 0: what --batch-size and --accumulate make.
  std::int64_t global_batch = 0;
  std::uint64_t seed = 0;
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

/// Sets the batch of a rank from --global-batch. Throws Error (invalid_argument) where that does not divide
/// by the ranks and --accumulate.
void complete(TrainOptions& options, int ranks);

}  // namespace muster::examples
