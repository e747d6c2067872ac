// SPDX-License-Identifier: Apache-2.0
// The flags: what is trained, on what and how; the ranks together; the run and what it writes.
#include "worker_sdk/muster_train/flags.hpp"

#include "muster/error.hpp"
#include "worker_sdk/muster_train/between.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/segments.hpp"
#include "worker_sdk/parallel/compression.hpp"
#include "worker_sdk/parallel/power_sgd.hpp"

#include <CLI/CLI.hpp>

#include <cstdlib>

namespace muster::examples {
namespace {

const CLI::Validator kShare = between(0.0, 1.0);
const CLI::Validator kRate = between(0.0, 1000.0);

/// Adds a flag with a value that has a default.
template <typename Value>
void add(CLI::App& group, const char* name, Value& value, const char* text, const CLI::Validator& check) {
  group.add_option(name, value, text)->check(check)->capture_default_str();
}

nn::Precision precision_of(const std::string& word) {
  if (word == "fp32" || word == "default") return nn::Precision::f32;
  if (word == "tf32") return nn::Precision::tf32;
  if (word == "bf16") return nn::Precision::bf16;
  if (word == "fp16") return nn::Precision::f16;
  return nn::is_fast(nn::Precision::bf16) ? nn::Precision::bf16 : nn::Precision::f32;
}

Form form_of(const std::string& word) {
  for (const Form form : {Form::zero1, Form::zero2, Form::fsdp})
    if (word == name_of(form)) return form;
  return Form::ddp;
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

nn::ActivationCheckpoints checkpoints_of(const std::string& word, const std::string& model) {
  try {
    return nn::activation_checkpoints(word, model);
  } catch (const Error& error) {
    throw Error(error.code(), std::string("--checkpoint-activations: ") + error.what());
  }
}

void add_checkpoint_flags(CLI::App& app, train::CheckpointOptions& checkpoints, Words& words) {
  CLI::App& keeping = in_group(app, "Checkpoints");
  keeping.add_option(
      "--checkpoint-dir", checkpoints.folder,
      "Folder for checkpoints: after each epoch, and before the run ends because of SIGTERM. A run goes on "
      "from the newest complete one there, so a job that is restarted resumes by itself");
  add(keeping, "--checkpoint-every", checkpoints.every, "Also every so many steps; 0: not",
      between(0, 1'000'000'000));
  add(keeping, "--keep", checkpoints.keep, "Newest checkpoints that stay", between(1, 1'000'000));
  keeping.add_flag("--no-resume", words.no_resume, "Starts anew whatever is in that folder");
  keeping.add_option("--resume-from", checkpoints.resume_from,
                     "One checkpoint (a folder in a --checkpoint-dir) to go on from; what --checkpoint-dir "
                     "already holds is newer, and wins");
  keeping.add_option("--init-from", checkpoints.init_from,
                     "Safetensors file with weights to start from, in torchvision's names; a head for "
                     "another number of classes is replaced");
  keeping.add_option("--export", checkpoints.export_file,
                     "Safetensors file that gets the weights at the end, in torchvision's names");
}

}  // namespace

CLI::App& in_group(CLI::App& app, const char* heading) {
  app.option_defaults()->group(heading);
  return app;
}

void add_model_flags(CLI::App& app, TrainOptions& options, Words& words) {
  train::LearnerOptions& learner = options.run.trainer.learner;
  CLI::App& group = in_group(app, "Model");
  add(group, "--model", learner.model,
      "Network: small-cnn (two convolutions, two linear layers, 545,098 parameters), resnet18 and resnet50 "
      "(3x3 "
      "stem, for 32x32 images), resnet18-imagenet-stem (7x7 stem and maximum pool, as torchvision has it; 15 "
      "times fewer operations), mlp and mlp-8 (linear layers on grey images), vit-tiny (vision transformer)",
      CLI::IsMember(nn::model_names()));
  add(group, "--precision", words.precision,
      "fp32; tf32: fp32 but for what is multiplied, which GPUs round to 10 bits; bf16: computes in bf16 with "
      "parameters in fp32; fp16: the same in fp16, with a loss that is scaled, on GPUs; auto: bf16 where "
      "processor or GPU are "
      "faster with it, else fp16 on GPUs; default: fp32 on processors, auto on GPUs",
      CLI::IsMember({"default", "fp32", "tf32", "bf16", "fp16", "auto"}));
  group
      .add_option(
          "--checkpoint-activations", words.checkpoint_activations,
          "Activations that backward computes again instead of keeping them, the same bits in less "
          "memory, for up to one more forward: none; block: those of each residual layer, and of each "
          "other one with parameters; sqrt: of about as many segments as the root of the number of "
          "steps; or a number of segments")
      ->capture_default_str();
  add(group, "--device", options.device,
      "What computes: cpu; cuda: the GPU of this rank's number on its host (LOCAL_RANK); auto: GPUs where "
      "each rank has one that works",
      CLI::IsMember({"auto", "cpu", "cuda"}));
  add(group, "--label-smoothing", learner.label_smoothing, "Share of each target spread over all classes",
      between(0.0, 0.99));
  add(group, "--ema", learner.ema_decay,
      "Decay of a moving average of the weights, for example 0.999, which is then evaluated in their place; "
      "0: none",
      between(0.0, 0.999999));
}

void add_data_flags(CLI::App& app, TrainOptions& options, Words& words) {
  data::LoaderOptions& loader = options.run.trainer.loader;
  CLI::App& group = in_group(app, "Data");
  group
      .add_option("--data", options.data,
                  "Folder with CIFAR-10's binary files (cifar-10-batches-bin), or 'synthetic' for a "
                  "generated set of 10,000 images, or 'synthetic:N' for N")
      ->required();
  add(group, "--crop-padding", loader.augmentation.crop_padding,
      "Random crops of training images after so many black pixels were added on each side; usual: 4",
      between(0, 16));
  group.add_flag("--flip", loader.augmentation.flip, "Flips half of the training images left to right");
  add(group, "--normalization", words.normalization,
      "Deviations that pixels are divided by. dataset: of all pixels of the training set (0.2470, 0.2435, "
      "0.2616); per-image: mean of those within each image (0.2023, 0.1994, 0.2010), as many recipes have it",
      CLI::IsMember({"dataset", "per-image"}));
  add(group, "--loader-threads", loader.threads,
      "Threads of each rank that prepare batches while the network computes; 0: none", between(0, 256));
  add(group, "--prefetch", loader.prefetch, "Batches that are prepared ahead", between(1, 1024));
}

void add_optimizer_flags(CLI::App& app, TrainOptions& options, Words& words) {
  train::TrainerOptions& trainer = options.run.trainer;
  optim::OptimizerOptions& optimizer = trainer.learner.optimizer;
  train::Recipe& recipe = trainer.recipe;
  CLI::App& steps = in_group(app, "Steps");
  add(steps, "--epochs", trainer.epochs, "Passes over the training images", between(1, 1'000'000));
  add(steps, "--batch-size", trainer.batch_size, "Images per step and rank", between(1, 65536));
  add(steps, "--accumulate", trainer.accumulation,
      "Batches of each rank whose gradients are added for one step", between(1, 65536));
  add(steps, "--global-batch", options.global_batch,
      "Images per step of all ranks, in place of --batch-size: the same training on any number of ranks; 0: "
      "unset",
      between(0, 1 << 24));
  steps.add_flag("--drop-last", trainer.drop_last,
                 "Leaves out images at the end of an epoch that fill no whole step");

  CLI::App& group = in_group(app, "Optimizer");
  add(group, "--optimizer", optimizer.kind, "sgd, adam or adamw, as PyTorch defines them",
      CLI::IsMember(optim::optimizer_names()));
  add(group, "--lr", recipe.rate, "Learning rate, for the mean gradient over all ranks", kRate);
  add(group, "--lr-per-256", recipe.rate_per_256,
      "Learning rate for batches of 256 images, scaled to those of all ranks (linear scaling rule), in place "
      "of --lr; use it with --warmup-epochs",
      kRate);
  add(group, "--momentum", optimizer.momentum, "Momentum of sgd", kShare);
  group.add_flag("--nesterov", optimizer.nesterov, "Nesterov's form of the momentum");
  add(group, "--weight-decay", optimizer.weight_decay, "Weight decay (see --decay)", kRate);
  add(group, "--decay", words.decay,
      "What --weight-decay applies to: weights (all parameters but biases and those of batch norm) or all, "
      "as "
      "torch.optim.SGD(model.parameters()) does",
      CLI::IsMember({"weights", "all"}));
  add(group, "--beta1", optimizer.beta1, "Of adam and adamw", kShare);
  add(group, "--beta2", optimizer.beta2, "Of adam and adamw", kShare);
  add(group, "--epsilon", optimizer.epsilon, "Of adam and adamw", kShare);
  add(group, "--clip-norm", trainer.learner.reducer.max_norm,
      "Largest L2 norm of the gradient over all parameters; longer ones are scaled down; 0: any",
      between(0.0, 1e9));
  add(group, "--schedule", words.schedule,
      "Of the learning rate: constant; step (see --lr-step-epochs); cosine (down to --lr-min); one-cycle (up "
      "from a 25th, then down to nearly nothing)",
      CLI::IsMember(optim::schedule_names()));
  add(group, "--warmup-epochs", recipe.warmup_epochs, "Epochs in which the rate rises to its full height",
      between(0.0, 1e6));
  add(group, "--warmup-start", recipe.warmup_start,
      "Share of the rate at which the warm-up starts; -1: at the rate for 256 images where --lr-per-256 "
      "scales up, else at a tenth",
      between(-1.0, 1.0));
  group.get_option("--warmup-start")->check([](const std::string& text) {
    const double share = std::strtod(text.c_str(), nullptr);
    return share < 0 && share != -1 ? text + " is neither a share nor -1" : std::string();
  });
  add(group, "--lr-step-epochs", recipe.step_epochs, "Schedule step: epochs between two falls",
      between(1e-6, 1e6));
  add(group, "--lr-gamma", recipe.gamma, "Schedule step: factor of a fall", kShare);
  add(group, "--lr-min", recipe.minimum, "Schedule cosine: the last rate", kRate);
  add(group, "--lr-peak-share", recipe.peak_share, "Schedule one-cycle: share of the steps before the peak",
      kShare);
}

void add_parallel_flags(CLI::App& app, TrainOptions& options, Words& words) {
  train::TrainerOptions& trainer = options.run.trainer;
  CLI::App& group = in_group(app, "Ranks");
  add(group, "--parallel", words.parallel,
      "What each rank holds (docs/parallel.md): ddp: everything; zero1: the optimizer's state in shards, one "
      "a "
      "rank; zero2: gradients, too; fsdp: parameters, too, which are gathered layer by layer before they are "
      "used. All give the same bits; each takes less memory than the one before. Shards: on processors only, "
      "without --compress and --deterministic-world. dp: --replicas of the network in one process, which "
      "share each batch and gather on the first (PyTorch's DataParallel: for comparison, on processors)",
      CLI::IsMember({"ddp", "zero1", "zero2", "fsdp", "dp"}));
  add(group, "--unit-mb", words.unit_mebibytes,
      "fsdp: neighbouring layers are gathered together up to so many MiB; 0: each on its own",
      between(0.0, 65536.0));
  add(group, "--prefetch-units", words.prefetch_units,
      "fsdp: units that are gathered while another one is computed; each takes memory", between(0, 64));
  add(group, "--shard-within", words.shard_within,
      "zero1, zero2, fsdp: who has a copy of the model together. all: all ranks; host: the ranks of each "
      "host, so that only sums of gradients go from host to host, and every host needs memory for the whole",
      CLI::IsMember({"all", "host"}));
  add(group, "--replicas", words.replicas, "dp: replicas, each with a thread", between(1, 64));
  group.add_flag("--sync-batch-norm", trainer.learner.sync_batch_norm,
                 "Batch norm over the images of all ranks");
  group.add_flag("--deterministic-world", words.deterministic_world,
                 "The same bits on any number of ranks up to --micro-batches, a power of two; give "
                 "--global-batch, too. Costs speed: small batches, and sums in a fixed tree");
  add(group, "--micro-batches", words.deterministic_micro_batches,
      "With --deterministic-world: parts of a step that are computed on their own, a power of two",
      between(1, 1024));
  add(group, "--compress", words.compression,
      "How gradients travel: none; bf16 or fp16: rounded to 16 bits; powersgd: as two narrow matrices, with "
      "the error kept for the next step",
      CLI::IsMember({"none", "bf16", "fp16", "powersgd"}));
  add(group, "--powersgd-rank", words.power_sgd_rank, "Columns of those matrices", between(1, 64));
  add(group, "--bucket-mib", words.bucket_mebibytes, "MiB of gradients that are reduced with one call",
      between(0.001, 4096.0));
  add(group, "--first-bucket-mib", words.first_bucket_mebibytes,
      "The same for the call that comes first in a step, so that it starts early, and for the last one, "
      "which nothing hides",
      between(0.001, 4096.0));
  add(group, "--check-every", trainer.check_every,
      "Steps after which the ranks compare their parameters; 0: only at the end", between(0, 1'000'000'000));
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
  add(group, "--threads", options.threads,
      "Threads of each rank; 0: OMP_NUM_THREADS if it is set (launchers set 1 for several workers), else its "
      "part of the processors that the ranks of this machine may use, but 1 with --deterministic-world, "
      "whose bits depend on it",
      between(0, 4096));
  group.add_flag(
      "--no-graph", words.no_graph,
      "GPUs: each kernel of a step is launched on its own, instead of the recorded step as one; the "
      "same bits, and slower");
  group.add_flag("--eval-only", run.eval_only,
                 "Scores the test images with the weights of --checkpoint-dir, --resume-from or --init-from, "
                 "and ends; training images, --optimizer and --seed do not matter");
  group.add_flag(
      "--dry-run", options.dry_run,
      "Prints an estimate of the memory of a rank, and the largest batch that fits, and ends: nothing "
      "is trained, no image is read");
  group.add_flag("--json", options.json, "With --dry-run: the estimate as JSON");
  add(group, "--max-steps", run.max_steps, "Steps after which the run ends; 0: those of its epochs",
      between(std::int64_t{0}, std::int64_t{1} << 40));
  add(group, "--time-limit", run.time_limit,
      "Seconds after which training ends with the step under way; the test images are then counted; 0: none",
      between(0.0, 1e9));

  add_checkpoint_flags(app, run.checkpoints, words);

  CLI::App& watching = in_group(app, "Watching");
  add(watching, "--log-every", run.log.progress.every,
      "Lines about every so many steps; 0: a bar on a terminal, else a line every ten seconds",
      between(0, 1'000'000'000));
  watching.add_option("--metrics", run.log.metrics, "File that gets a JSON object a line");
  watching.add_option("--tensorboard", run.log.tensorboard, "Folder that gets events for TensorBoard");
  add(watching, "--metrics-every", run.log.metrics_every, "Steps between two entries in those",
      between(1, 1'000'000'000));
  watching.add_option("--profile", run.profile,
                      "File that gets a Chrome trace of all ranks; also says which rank arrives last");
}

void apply(const Words& words, TrainOptions& options) {
  train::TrainerOptions& trainer = options.run.trainer;
  trainer.learner.precision = precision_of(words.precision);
  trainer.learner.activation_checkpoints =
      checkpoints_of(words.checkpoint_activations, trainer.learner.model);
  options.best_precision = words.precision == "auto";
  options.best_on_gpu = options.best_precision || words.precision == "default";
  trainer.learner.if_diverged =
      "try a smaller learning rate (--lr), or clip the norm of gradients (--clip-norm 1)";
  trainer.learner.optimizer.decay_all = words.decay == "all";
  trainer.recipe.schedule = optim::schedule_kind(words.schedule);
  if (words.normalization == "per-image") trainer.loader.normalization = data::kCifar10PerImageNormalization;
  ReducerOptions& reducer = trainer.learner.reducer;
  reducer.hook = hook_of(words, options.seed);
  reducer.bucket_bytes = static_cast<std::size_t>(words.bucket_mebibytes * 1048576);
  reducer.first_bucket_bytes = reducer.last_bucket_bytes =
      static_cast<std::size_t>(words.first_bucket_mebibytes * 1048576);
  reducer.sharding.form = form_of(words.parallel);
  reducer.sharding.unit_bytes = static_cast<std::size_t>(words.unit_mebibytes * 1048576);
  reducer.sharding.prefetch = static_cast<std::size_t>(words.prefetch_units);
  options.shard_within_host = words.shard_within == "host";
  if (words.parallel == "dp") {
    trainer.learner.replicas = words.replicas;
    options.device = "cpu";
  }
  reducer.deterministic_micro_batches = words.deterministic_world ? words.deterministic_micro_batches : 0;
  trainer.seed = trainer.learner.seed = trainer.loader.augmentation.seed = options.seed;
  trainer.learner.record_steps = !words.no_graph;
  options.run.checkpoints.resume = !words.no_resume;
  options.run.checkpoints.only_read = trainer.only_scores = options.run.eval_only;
  options.run.log.progress.epochs = trainer.epochs;
}

}  // namespace muster::examples
