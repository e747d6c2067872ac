// SPDX-License-Identifier: Apache-2.0
// What sanitizers look at of networks, learners, forms and checkpoints: every layer, thread and file of a
// run, in sizes that a build without optimization gets through. Other tests judge the numbers.
#include "catch.hpp"
#include "tests/unit/worker_sdk/muster_train/training.hpp"
#include "tests/unit/worker_sdk/nn/checkpoint/folder.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "tests/unit/worker_sdk/nn/small_lists.hpp"
#include "worker_sdk/muster_train/checkpoint/checkpointing.hpp"
#include "worker_sdk/nn/batches/epoch_plan.hpp"
#include "worker_sdk/nn/learner/learner.hpp"
#include "worker_sdk/nn/segments.hpp"

#include <array>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace sanitized_test {

using namespace muster::train;
using muster::Form;
using muster::ProcessGroup;
using muster::test::Folder;
using muster::test::require;
using muster::test::run_shm_ranks;

namespace {

constexpr std::array kForms = {Form::ddp, Form::zero1, Form::zero2, Form::fsdp};
constexpr std::array kOptimizers = {"sgd", "adam", "adamw"};

void fill(const WantedBatch& batch) {
  if (batch.samples.empty()) return;
  const std::size_t values = (batch.inputs.size() + batch.ids.size()) / batch.samples.size();
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    for (std::size_t k = 0; k < values; ++k) {
      const auto number = static_cast<std::int32_t>((31 * batch.samples[i] + 7 * k) % 11);
      if (batch.ids.empty())
        batch.inputs[i * values + k] = static_cast<float>(number) / 11.0F - 0.5F;
      else
        batch.ids[i * values + k] = number;
    }
    batch.labels[i] = static_cast<std::int32_t>(batch.samples[i] % 3);
  }
}

/// Two steps of two micro-batches on each rank, with fewer samples than there is room for, and an evaluation.
std::uint64_t trained(const LearnerOptions& options, ProcessGroup* group,
                      muster::nn::gpu::Ops* device = nullptr, const FillBatch& filler = fill) {
  LearnerTask task;
  task.options = options;
  task.batch_size = 3;
  task.accumulation = 2;
  StepShape shape;
  shape.rank = group == nullptr ? 0 : group->rank();
  shape.ranks = group == nullptr ? 1 : group->size();
  shape.batch_size = task.batch_size;
  shape.accumulation = task.accumulation;
  Learner learner(task, Samples(filler), group, device);
  const std::size_t samples = shape.global_batch() - 1;
  std::vector<std::uint32_t> order(2 * samples);
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t step = 0; step < 2; ++step) {
    learner.begin_epoch(plan_epoch(std::span(order).subspan(step * samples, samples), shape), 0);
    const StepResult result = learner.step({shape.micro_batches(), 0.05F, samples, {}});
    require(result.samples == static_cast<std::int64_t>(samples), "a step has other samples");
  }
  const auto score = learner.evaluate(plan_evaluation(5, shape));
  require(score.has_value() && score->samples == 5, "an evaluation has other samples");
  return learner.parameter_hash();
}

}  // namespace

TEST_CASE("Networks of every layer train in every form, with every optimizer, to one hash") {
  std::size_t number = 0;
  for (const muster::nn::Description& network : muster::test::small_lists()) {
    LearnerOptions options;
    options.network = std::make_shared<const muster::nn::Description>(network);
    options.optimizer.kind = kOptimizers[number++ % kOptimizers.size()];
    options.ema_decay = 0.5;
    options.activation_checkpoints = muster::nn::checkpoints_of(number % 2 == 0 ? "none" : "block");
    options.reducer.max_norm = 0.5;
    std::vector<std::uint64_t> hashes;
    for (const Form form : kForms) {
      options.reducer.sharding.form = form;
      std::array<std::uint64_t, 2> found = {};
      const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
        found[static_cast<std::size_t>(group.rank())] = trained(options, &group);
      });
      INFO(network.name << ", " << muster::name_of(form));
      CHECK(errors == std::vector<std::string>(2));
      CHECK(found[0] == found[1]);
      hashes.push_back(found[0]);
    }
    INFO(network.name);
    CHECK(hashes == std::vector<std::uint64_t>(kForms.size(), hashes[0]));
  }
}

TEST_CASE("A rank that gives up while parameters are gathered ahead ends the others' steps") {
  const auto lists = muster::test::small_lists();
  LearnerOptions options;
  options.network = std::make_shared<const muster::nn::Description>(lists[1]);
  options.reducer.sharding.form = Form::fsdp;
  for (const std::size_t prefetch : {1U, 3U})
    for (int round = 0; round < 5; ++round) {
      options.reducer.sharding.prefetch = prefetch;
      // Its loss is found out when backward's parameters are on their way.
      const auto errors = run_shm_ranks(3, [&](ProcessGroup& group) {
        (void)trained(options, &group, nullptr, [&group](const WantedBatch& batch) {
          fill(batch);
          if (group.rank() == 1 && batch.samples[0] > 15)
            batch.inputs[0] = std::numeric_limits<float>::quiet_NaN();
        });
      });
      INFO(prefetch << " ahead");
      CHECK_THAT(errors[1], Contains("the loss of rank 1 is no longer a number"));
      for (const std::size_t other : {0U, 2U}) CHECK_THAT(errors[other], Contains("rank 1"));
    }
}

#ifndef MUSTER_SANITIZED_THREADS
TEST_CASE("A device computes networks of every layer within its memory") {
  for (const muster::nn::Description& network : muster::test::small_lists())
    for (const muster::nn::Precision precision : {muster::nn::Precision::f32, muster::nn::Precision::bf16}) {
      LearnerOptions options;
      options.network = std::make_shared<const muster::nn::Description>(network);
      options.optimizer.kind = "adamw";
      options.ema_decay = 0.5;
      options.precision = precision;
      options.reducer.max_norm = 0.5;
      muster::nn::gpu::HostOps device;
      INFO(network.name);
      CHECK(trained(options, nullptr, &device) != 0);
    }
}
#endif

TEST_CASE("Images are loaded, checkpoints written beside training, and read in another form") {
  const auto data = muster::test::small_set(8, 2);
  const Folder folder;
  std::array<std::uint64_t, 2> left = {};
  for (const Form form : {Form::ddp, Form::fsdp, Form::zero2, Form::ddp}) {
    std::array<std::uint64_t, 2> found = {};
    const std::uint64_t before = left[0];
    const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
      TrainerOptions options;
      options.batch_size = 2;
      options.loader.threads = 2;
      options.loader.augmentation.flip = true;
      options.learner.optimizer.kind = "adam";
      options.learner.reducer.sharding.form = form;
      CheckpointOptions checkpoints;
      checkpoints.folder = folder / "checkpoints";
      checkpoints.every = 1;
      Trainer trainer(data, &group, options);
      Checkpointing checkpointing(checkpoints, options, trainer, &group);
      (void)checkpointing.begin();
      const auto rank = static_cast<std::size_t>(group.rank());
      found[rank] = trainer.learner().parameter_hash();
      Score score;
      trainer.train_epoch([&](const StepReport&) { checkpointing.after_step(); }, score);
      trainer.next_epoch();
      checkpointing.save_now();
      left[rank] = trainer.learner().parameter_hash();
    });
    INFO(muster::name_of(form));
    CHECK(errors == std::vector<std::string>(2));
    if (before != 0) CHECK(found[0] == before);
    CHECK(left[0] != found[0]);
    CHECK(left[0] == left[1]);
  }
}

}  // namespace sanitized_test
