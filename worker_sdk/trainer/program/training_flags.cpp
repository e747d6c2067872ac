// SPDX-License-Identifier: Apache-2.0
// Flags about what is trained, on what, and how.
#include "worker_sdk/trainer/program/train_flags.hpp"

#include <CLI/CLI.hpp>

#include <cstdlib>

namespace muster::examples {
namespace {

const CLI::Range kShare(0.0, 1.0);
const CLI::Range kRate(0.0, 1000.0);

}  // namespace

void add_model_flags(CLI::App& app, TrainOptions& options, Words& words) {
  train::LearnerOptions& learner = options.run.trainer.learner;
  CLI::App& group = in_group(app, "Model");
  group
      .add_option(
          "--model", learner.model,
          "Network: small-cnn (two convolutions, two linear layers, 545,098 parameters), resnet18 (3x3 stem, "
          "for "
          "32x32 images), resnet18-imagenet-stem (7x7 stem and maximum pool, as torchvision has it; 15 times "
          "fewer operations)")
      ->check(CLI::IsMember(nn::model_names()))
      ->capture_default_str();
  group
      .add_option("--precision", words.precision,
                  "fp32; bf16: computes in bf16 with parameters in fp32; auto: bf16 where processor or GPU "
                  "are faster with it")
      ->check(CLI::IsMember({"fp32", "bf16", "auto"}))
      ->capture_default_str();
  group
      .add_option("--device", options.device,
                  "What computes: cpu; cuda: the GPU of this rank's number on its host (LOCAL_RANK); auto: "
                  "GPUs where "
                  "each rank has one that works")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  group
      .add_option("--label-smoothing", learner.label_smoothing,
                  "Share of each target spread over all classes")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  group
      .add_option("--ema", learner.ema_decay,
                  "Decay of a moving average of the weights, for example 0.999, which is then evaluated in "
                  "their place; "
                  "0: none")
      ->check(CLI::Range(0.0, 0.999999))
      ->capture_default_str();
}

void add_data_flags(CLI::App& app, TrainOptions& options, Words& words) {
  data::LoaderOptions& loader = options.run.trainer.loader;
  CLI::App& group = in_group(app, "Data");
  group
      .add_option(
          "--data", options.data,
          "Folder with CIFAR-10's binary files (cifar-10-batches-bin), or 'synthetic' for a generated set of "
          "10,000 images, or 'synthetic:N' for N")
      ->required();
  group
      .add_option(
          "--crop-padding", loader.augmentation.crop_padding,
          "Random crops of training images after so many black pixels were added on each side; usual: 4")
      ->check(CLI::Range(0, 16))
      ->capture_default_str();
  group.add_flag("--flip", loader.augmentation.flip, "Flips half of the training images left to right");
  group
      .add_option("--normalization", words.normalization,
                  "Deviations that pixels are divided by. dataset: of all pixels of the training set "
                  "(0.2470, 0.2435, "
                  "0.2616); per-image: mean of those within each image (0.2023, 0.1994, 0.2010), as many "
                  "recipes have it")
      ->check(CLI::IsMember({"dataset", "per-image"}))
      ->capture_default_str();
  group
      .add_option("--loader-threads", loader.threads,
                  "Threads of each rank that prepare batches while the network computes; 0: none")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  group.add_option("--prefetch", loader.prefetch, "Batches that are prepared ahead")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

void add_optimizer_flags(CLI::App& app, TrainOptions& options, Words& words) {
  train::TrainerOptions& trainer = options.run.trainer;
  optim::OptimizerOptions& optimizer = trainer.learner.optimizer;
  train::Recipe& recipe = trainer.recipe;
  CLI::App& steps = in_group(app, "Steps");
  const auto number = [](CLI::App& group, const char* name, auto& value, const char* text,
                         const CLI::Range& range) {
    group.add_option(name, value, text)->check(range)->capture_default_str();
  };
  number(steps, "--epochs", trainer.epochs, "Passes over the training images", CLI::Range(1, 1'000'000));
  number(steps, "--batch-size", trainer.batch_size, "Images per step and rank", CLI::Range(1, 65536));
  number(steps, "--accumulate", trainer.accumulation,
         "Batches of each rank whose gradients are added for one step", CLI::Range(1, 65536));
  number(steps, "--global-batch", options.global_batch,
         "Images per step of all ranks, in place of --batch-size: the same training on any number of ranks; "
         "0: unset",
         CLI::Range(0, 1 << 24));
  steps.add_flag("--drop-last", trainer.drop_last,
                 "Leaves out images at the end of an epoch that fill no whole step");

  CLI::App& group = in_group(app, "Optimizer");
  group.add_option("--optimizer", optimizer.kind, "sgd, adam or adamw, as PyTorch defines them")
      ->check(CLI::IsMember(optim::optimizer_names()))
      ->capture_default_str();
  number(group, "--lr", recipe.rate, "Learning rate, for the mean gradient over all ranks", kRate);
  number(group, "--lr-per-256", recipe.rate_per_256,
         "Learning rate for batches of 256 images, scaled to those of all ranks (linear scaling rule), in "
         "place of "
         "--lr; use it with --warmup-epochs",
         kRate);
  number(group, "--momentum", optimizer.momentum, "Momentum of sgd", kShare);
  group.add_flag("--nesterov", optimizer.nesterov, "Nesterov's form of the momentum");
  number(group, "--weight-decay", optimizer.weight_decay,
         "Of all parameters but biases and those of batch norm", kRate);
  number(group, "--beta1", optimizer.beta1, "Of adam and adamw", kShare);
  number(group, "--beta2", optimizer.beta2, "Of adam and adamw", kShare);
  number(group, "--epsilon", optimizer.epsilon, "Of adam and adamw", kShare);
  number(group, "--clip-norm", trainer.learner.reducer.max_norm,
         "Largest L2 norm of the gradient over all parameters; longer ones are scaled down; 0: any",
         CLI::Range(0.0, 1e9));
  group
      .add_option("--schedule", words.schedule,
                  "Of the learning rate: constant; step (see --lr-step-epochs); cosine (down to --lr-min); "
                  "one-cycle (up "
                  "from a 25th, then down to nearly nothing)")
      ->check(CLI::IsMember(optim::schedule_names()))
      ->capture_default_str();
  number(group, "--warmup-epochs", recipe.warmup_epochs, "Epochs in which the rate rises to its full height",
         CLI::Range(0.0, 1e6));
  number(group, "--warmup-start", recipe.warmup_start,
         "Share of the rate at which the warm-up starts; -1: at the rate for 256 images where --lr-per-256 "
         "scales up, "
         "else at a tenth",
         CLI::Range(-1.0, 1.0));
  group.get_option("--warmup-start")->check([](const std::string& text) {
    const double share = std::strtod(text.c_str(), nullptr);
    return share < 0 && share != -1 ? text + " is neither a share nor -1" : std::string();
  });
  number(group, "--lr-step-epochs", recipe.step_epochs, "Schedule step: epochs between two falls",
         CLI::Range(1e-6, 1e6));
  number(group, "--lr-gamma", recipe.gamma, "Schedule step: factor of a fall", kShare);
  number(group, "--lr-min", recipe.minimum, "Schedule cosine: the last rate", kRate);
  number(group, "--lr-peak-share", recipe.peak_share,
         "Schedule one-cycle: share of the steps before the peak", kShare);
}

}  // namespace muster::examples
