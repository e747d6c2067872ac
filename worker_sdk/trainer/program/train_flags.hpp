// SPDX-License-Identifier: Apache-2.0
// The flags of muster-train by theme. Each adds its group to the parser, which writes to `options`.
#pragma once

#include "worker_sdk/trainer/program/train_options.hpp"

#include <string>
#include <vector>

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

/// Makes every flag for a number refuse what is none, and every flag without a value refuse a value that is
/// neither true, 1, yes, on nor false, 0, no, off: the parser lets "nan", "0x10" and --flip=1.5 through.
void require_plain_values(CLI::App& app);

/// Throws Error (invalid_argument) for "--flag=", and for "--flag --other" where --flag needs a value. Call
/// it before parsing: the parser would take the next flag for the value.
void require_values(const CLI::App& app, const std::vector<std::string>& words);

/// Throws Error (invalid_argument) that names two flags of which only one can be meant, or one that asks for
/// something which another one would have to make possible. Call it after parsing.
void refuse_contradictions(const CLI::App& app);

/// Throws Error (invalid_argument) for what --parallel dp cannot do. Call it after parsing.
void refuse_with_replicas(const CLI::App& app);

/// Returns a sentence for each flag that was given and changes nothing. Call it after parsing.
std::vector<std::string> flags_without_effect(const CLI::App& app);

/// Returns each flag that has to be the same on every rank, with its value, a line each. Call it after
/// parsing.
std::string flags_to_agree_on(const CLI::App& app);

/// One member of a configuration file: a flag's name without its dashes, and its value as the command line
/// has it.
struct ConfigEntry {
  std::string name;
  std::string value;
};

/// Reads a JSON object of flags: {"model": "resnet18", "batch-size": 128, "flip": true}. Throws Error (io) or
/// (invalid_argument) that names the file and the place.
std::vector<ConfigEntry> read_config(const std::string& path);

/// Reads the same from `text`, which is that of the file `path`.
std::vector<ConfigEntry> parse_config(const std::string& text, const std::string& path);

}  // namespace muster::examples
