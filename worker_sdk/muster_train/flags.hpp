// SPDX-License-Identifier: Apache-2.0
// The flags of muster-train by theme. Each adds its group to the parser, which writes to `options`.
#pragma once

#include "worker_sdk/muster_train/train_options.hpp"

#include <string>

namespace CLI {
class App;
}

namespace muster::examples {

/// Words that stand for something else until the parser is done.
struct Words {
  std::string precision = "default";
  std::string checkpoint_activations = "none";
  std::string decay = "weights";
  std::string schedule = "constant";
  std::string normalization = "dataset";
  std::string compression = "none";
  int replicas = 2;
  int power_sgd_rank = 2;
  double bucket_mebibytes = 25;
  double first_bucket_mebibytes = 1;
  std::string parallel = "ddp";
  std::string shard_within = "all";
  double unit_mebibytes = 0;
  int prefetch_units = 1;
  int deterministic_micro_batches = 8;
  bool deterministic_world = false;
  bool no_resume = false;
  bool no_graph = false;
  std::string config;
};

/// Returns the same parser; flags that are added next stand under this heading in --help.
CLI::App& in_group(CLI::App& app, const char* heading);

void add_model_flags(CLI::App& app, TrainOptions& options, Words& words);
void add_data_flags(CLI::App& app, TrainOptions& options, Words& words);
void add_optimizer_flags(CLI::App& app, TrainOptions& options, Words& words);
void add_parallel_flags(CLI::App& app, TrainOptions& options, Words& words);
void add_run_flags(CLI::App& app, TrainOptions& options, Words& words);

/// Puts the words into the options that they stand for.
void apply(const Words& words, TrainOptions& options);

}  // namespace muster::examples
