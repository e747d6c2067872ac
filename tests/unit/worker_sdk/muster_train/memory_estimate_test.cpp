// SPDX-License-Identifier: Apache-2.0
// The laws of memory, and the largest batch. That the sums are those of a process is for
// tests/integration/train/muster_train_dry_run_test.py.
#include "worker_sdk/muster_train/memory_estimate.hpp"

#include "catch.hpp"
#include "worker_sdk/nn/built_in.hpp"

#include <vector>

namespace memory_estimate_test {

using muster::nn::BatchSize;
using muster::nn::MemoryUse;
using namespace muster::train;

namespace {

/// A network that takes 1000 bytes of activations and 10 of workspace for a sample.
KernelMemory kernels() {
  KernelMemory memory;
  memory.of = [](std::span<const BatchSize> batches) {
    MemoryUse use;
    for (const BatchSize& batch : batches)
      use = {std::max(use.activations, static_cast<std::size_t>(1000 * batch.samples)),
             std::max(use.workspace, static_cast<std::size_t>(10 * batch.samples))};
    return use;
  };
  memory.steps = {{"one", 600}, {"two", 400}};
  memory.sample_bytes = 12288;
  return memory;
}

const muster::nn::Plan& plan() {
  static const muster::nn::Plan plan = muster::nn::plan_of(muster::nn::built_in("resnet18", 10));
  return plan;
}

MemoryEstimate estimate(const TrainerOptions& options, int ranks = 1) {
  return estimate_memory(plan(), options, {1000, 200}, ranks, kernels());
}

}  // namespace

TEST_CASE("The batches of a rank: whole ones and what is left, each once") {
  TrainerOptions options;
  options.batch_size = 64;
  const auto sizes = [&](int ranks) { return batches_of(options, {1000, 200}, ranks); };
  CHECK((sizes(1) == std::vector<BatchSize>{{64, true}, {40, true}, {8, false}}));
  CHECK((sizes(2) == std::vector<BatchSize>{{64, true}, {52, true}, {36, false}}));
  options.only_scores = true;
  CHECK((sizes(1) == std::vector<BatchSize>{{64, false}, {8, false}}));
}

TEST_CASE("The law of ddp: two copies of the parameters, the state of the optimizer, the batch of the rank") {
  TrainerOptions options;
  const std::size_t p = plan().spec.parameter_count() * sizeof(float);
  const auto near = [p](std::size_t bytes, std::size_t times) {
    CHECK(bytes >= times * p);
    CHECK(bytes < times * p + p / 100);  // gaps between parameters, running statistics
  };
  const MemoryEstimate sgd = estimate(options);
  near(sgd.table.parameters, 1);
  near(sgd.table.gradients, 1);
  near(sgd.table.optimizer_state, 1);
  CHECK(sgd.table.average == 0);
  CHECK(sgd.waiting == 0);
  CHECK(sgd.table.activations == 64 * 1000);
  CHECK(sgd.table.workspace == 64 * 10);
  CHECK(sgd.table.replicas == 0);
  CHECK(
      (sgd.layers == std::vector<std::pair<std::string, std::size_t>>{{"one", 64 * 600}, {"two", 64 * 400}}));
  options.learner.optimizer.kind = "adam";
  options.learner.ema_decay = 0.9;
  options.accumulation = 3;
  const MemoryEstimate adam = estimate(options, 4);
  near(adam.table.optimizer_state, 2);
  near(adam.table.average, 1);
  near(adam.table.gradients, 2);
  near(adam.waiting, 1);
  options = {};
  options.learner.optimizer.momentum = 0;
  CHECK(estimate(options).table.optimizer_state == 0);
  options.learner.reducer.deterministic_micro_batches = 8;
  near(estimate(options).waiting, 3);  // digits of 7
  CHECK(estimate(options).table.activations == 8 * 1000);
}

TEST_CASE("The copy for checkpoints: parameters, statistics and state, of a host") {
  TrainerOptions options;
  options.learner.ema_decay = 0.9;
  const auto with = [&](int ranks, bool on_device) {
    KernelMemory memory = kernels();
    memory.on_device = on_device;
    return estimate_memory(plan(), options, {1000, 200}, ranks, memory, true);
  };
  const MemoryEstimate alone = with(1, false);
  CHECK(alone.table.checkpoint == alone.table.parameters + alone.table.optimizer_state + alone.table.average);
  CHECK(alone.total() == estimate(options).total() + alone.table.checkpoint);
  CHECK(with(1, true).table.checkpoint == 0);
  options.learner.reducer.sharding.form = muster::Form::fsdp;
  CHECK(40 * with(4, false).table.checkpoint < 11 * alone.table.checkpoint);
}

TEST_CASE(
    "The law of dp: activations by shares, the whole batch on replica 0, two more copies for each other") {
  TrainerOptions options;
  options.batch_size = 10;
  const MemoryEstimate one = estimate(options);
  options.learner.replicas = 4;
  CHECK(form_of(options, 1) == "dp");
  const MemoryEstimate four = estimate(options);
  CHECK(four.table.parameters + four.table.gradients == one.table.parameters + one.table.gradients);
  CHECK(four.table.activations == 3 * 1000 + 10 * 10 * sizeof(float));
  CHECK(four.table.workspace == 3 * 10 + 10 * (12288 + 10 * sizeof(float)));
  std::size_t floats = 2 * plan().spec.parameter_count();
  for (const auto& buffer : plan().spec.buffers) floats += buffer.elements();
  CHECK(four.table.replicas == 3 * floats * sizeof(float) + (3 + 2 + 2) * 1010);
  CHECK(four.layers.front().second == 3 * 600);
}

TEST_CASE("The largest batch fits, and one more does not") {
  for (const std::size_t fixed : {0U, 1000U})
    for (const std::size_t each : {1U, 7U, 1300U})
      for (const std::size_t free : {999U, 1000U, 5000U, 123'456U}) {
        CAPTURE(fixed, each, free);
        const auto total = [&](std::size_t batch) { return fixed + batch * each; };
        const std::size_t found = largest_batch(total, free, 65536);
        const std::size_t best = free < fixed ? 0 : std::min<std::size_t>(65536, (free - fixed) / each);
        CHECK(found <= best);
        // As good as full is enough.
        if (found < best) CHECK(free - total(found) < free / 100);
        CHECK((found > 0) == (best > 0));
      }
  // One that jumps, as the kernels of another size do.
  const auto jumps = [](std::size_t batch) { return batch * 10 + (batch > 50 ? 3000U : 0U); };
  CHECK(largest_batch(jumps, 1000, 65536) == 50);
}

}  // namespace memory_estimate_test
