// SPDX-License-Identifier: Apache-2.0
// Flags about the ranks together, and about the run and what it writes.
#include "muster/error.hpp"
#include "worker_sdk/parallel/bucket_hook.hpp"
#include "worker_sdk/trainer/program/train_flags.hpp"

#include <CLI/CLI.hpp>

namespace muster::examples {
namespace {

nn::Precision precision_of(const std::string& word) {
  if (word == "fp32") return nn::Precision::f32;
  if (word == "bf16") return nn::Precision::bf16;
  return nn::is_fast(nn::Precision::bf16) ? nn::Precision::bf16 : nn::Precision::f32;
}

std::shared_ptr<BucketHook> hook_of(const Words& words, std::uint64_t seed) {
  if (words.compression == "bf16") return make_half_hook(DataType::bf16);
  if (words.compression == "fp16") return make_half_hook(DataType::f16);
  if (words.compression == "none") return nullptr;
  PowerSgdOptions options;
  options.rank = words.power_sgd_rank;
  options.seed = seed;
  return make_power_sgd_hook(options);
}

void add_checkpoint_flags(CLI::App& app, train::CheckpointOptions& checkpoints, Words& words) {
  CLI::App& keeping = in_group(app, "Checkpoints");
  keeping.add_option(
      "--checkpoint-dir", checkpoints.folder,
      "Folder for checkpoints: after each epoch, and before the run ends because of SIGTERM. A run goes on "
      "from the newest complete one there, so a job that is restarted resumes by itself");
  keeping.add_option("--checkpoint-every", checkpoints.every, "Also every so many steps; 0: not")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  keeping.add_option("--keep", checkpoints.keep, "Newest checkpoints that stay")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  keeping.add_flag("--no-resume", words.no_resume, "Starts anew whatever is in that folder");
  keeping.add_option(
      "--resume-from", checkpoints.resume_from,
      "One checkpoint (a folder in a --checkpoint-dir) to go on from; what --checkpoint-dir already holds is "
      "newer, and wins");
  keeping.add_option(
      "--init-from", checkpoints.init_from,
      "Safetensors file with weights to start from, in torchvision's names; a head for another number of "
      "classes is replaced");
  keeping.add_option("--export", checkpoints.export_file,
                     "Safetensors file that gets the weights at the end, in torchvision's names");
}

}  // namespace

void add_parallel_flags(CLI::App& app, TrainOptions& options, Words& words) {
  train::TrainerOptions& trainer = options.run.trainer;
  CLI::App& group = in_group(app, "Ranks");
  group.add_flag("--sync-batch-norm", trainer.learner.sync_batch_norm,
                 "Batch norm over the images of all ranks");
  group.add_flag(
      "--deterministic-world", words.deterministic_world,
      "The same bits on any number of ranks up to --micro-batches, a power of two; give --global-batch, too. "
      "Costs speed: small batches, and sums in a fixed tree");
  group
      .add_option(
          "--micro-batches", words.deterministic_micro_batches,
          "With --deterministic-world: parts of a step that are computed on their own, a power of two")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  group
      .add_option("--compress", words.compression,
                  "How gradients travel: none; bf16 or fp16: rounded to 16 bits; powersgd: as two narrow "
                  "matrices, with "
                  "the error kept for the next step")
      ->check(CLI::IsMember({"none", "bf16", "fp16", "powersgd"}))
      ->capture_default_str();
  group.add_option("--powersgd-rank", words.power_sgd_rank, "Columns of those matrices")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  group.add_option("--bucket-mib", words.bucket_mebibytes, "MiB of gradients that are reduced with one call")
      ->check(CLI::Range(0.001, 4096.0))
      ->capture_default_str();
  group
      .add_option(
          "--first-bucket-mib", words.first_bucket_mebibytes,
          "The same for the call that comes first in a step, so that it starts early, and for the last "
          "one, which nothing hides")
      ->check(CLI::Range(0.001, 4096.0))
      ->capture_default_str();
  group
      .add_option("--check-every", trainer.check_every,
                  "Steps after which the ranks compare their parameters; 0: only at the end")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
}

void add_run_flags(CLI::App& app, TrainOptions& options, Words& words) {
  train::RunOptions& run = options.run;
  CLI::App& group = in_group(app, "Run");
  group
      .add_option(
          "--config", words.config,
          "JSON file with flags, {\"model\": \"resnet18\", \"flip\": true}; what the command line says wins")
      ->check(CLI::ExistingFile);
  group.add_option("--seed", options.seed, "Of the first parameters, the order of images, crops and flips")
      ->check([](const std::string& text) {
        return text.starts_with('-') ? text + " is below 0" : std::string();
      })
      ->capture_default_str();
  group
      .add_option(
          "--threads", options.threads,
          "Threads of each rank; 0: OMP_NUM_THREADS if it is set (launchers set 1 for several workers), "
          "else its part of the processors that the ranks of this machine may use, but 1 with "
          "--deterministic-world, whose bits depend on it")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  group.add_flag(
      "--eval-only", run.eval_only,
      "Scores the test images with the weights of --checkpoint-dir, --resume-from or --init-from, and ends; "
      "training images, --optimizer and --seed do not matter");
  group.add_option("--max-steps", run.max_steps, "Steps after which the run ends; 0: those of its epochs")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->capture_default_str();
  group
      .add_option("--time-limit", run.time_limit,
                  "Seconds after which training ends with the step under way; the test images are then "
                  "counted; 0: none")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();

  add_checkpoint_flags(app, run.checkpoints, words);

  CLI::App& watching = in_group(app, "Watching");
  watching
      .add_option("--log-every", run.log.progress.every,
                  "Lines about every so many steps; 0: a bar on a terminal, else a line every ten seconds")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  watching.add_option("--metrics", run.log.metrics, "File that gets a JSON object a line");
  watching.add_option("--tensorboard", run.log.tensorboard, "Folder that gets events for TensorBoard");
  watching.add_option("--metrics-every", run.log.metrics_every, "Steps between two entries in those")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  watching.add_option("--profile", run.profile,
                      "File that gets a Chrome trace of all ranks; also says which rank arrives last");
}

void apply(const Words& words, TrainOptions& options) {
  train::TrainerOptions& trainer = options.run.trainer;
  trainer.learner.precision = precision_of(words.precision);
  options.best_precision = words.precision == "auto";
  trainer.recipe.schedule = optim::schedule_kind(words.schedule);
  if (words.normalization == "per-image") trainer.loader.normalization = data::kCifar10PerImageNormalization;
  ReducerOptions& reducer = trainer.learner.reducer;
  reducer.hook = hook_of(words, options.seed);
  reducer.bucket_bytes = static_cast<std::size_t>(words.bucket_mebibytes * 1048576);
  reducer.first_bucket_bytes = reducer.last_bucket_bytes =
      static_cast<std::size_t>(words.first_bucket_mebibytes * 1048576);
  reducer.deterministic_micro_batches = words.deterministic_world ? words.deterministic_micro_batches : 0;
  trainer.seed = trainer.learner.seed = trainer.loader.augmentation.seed = options.seed;
  options.run.checkpoints.resume = !words.no_resume;
  options.run.checkpoints.only_read = trainer.only_scores = options.run.eval_only;
  options.run.log.progress.epochs = trainer.epochs;
}

void complete(TrainOptions& options, int ranks) {
  train::TrainerOptions& trainer = options.run.trainer;
  if (options.global_batch == 0) return;
  const std::int64_t parts = std::int64_t{ranks} * trainer.accumulation;
  if (options.global_batch % parts != 0)
    throw Error(
        ErrorCode::invalid_argument,
        "--global-batch " + std::to_string(options.global_batch) + " does not divide by " +
            std::to_string(ranks) + " ranks" +
            (trainer.accumulation > 1 ? " x " + std::to_string(trainer.accumulation) + " batches" : "") +
            "; give a multiple of " + std::to_string(parts));
  trainer.batch_size = static_cast<std::size_t>(options.global_batch / parts);
}

}  // namespace muster::examples
