// SPDX-License-Identifier: Apache-2.0
// Copies of a model that some ranks have together (Sharding::ranks): bits, costs, and checkpoints.
#include "catch.hpp"
#include "tests/unit/worker_sdk/muster_train/training.hpp"
#include "tests/unit/worker_sdk/nn/checkpoint/folder.hpp"
#include "worker_sdk/muster_train/checkpoint/checkpointing.hpp"
#include "worker_sdk/muster_train/memory_estimate.hpp"
#include "worker_sdk/nn/built_in.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shards_within_test {

using namespace muster::train;
using muster::Form;
using muster::ProcessGroup;
using muster::test::Folder;
using muster::test::run_shm_ranks;
using muster::test::run_world;
using muster::test::small_set;

namespace {

TrainerOptions shards_of(int ranks, Form form, const char* model = "small-cnn") {
  TrainerOptions options;
  options.batch_size = 2;
  options.learner.model = model;
  options.learner.reducer.sharding.form = form;
  options.learner.reducer.sharding.ranks = ranks;
  options.learner.reducer.bucket_bytes = options.learner.reducer.first_bucket_bytes = 1 << 16;
  return options;
}

TrainerOptions with_everything(TrainerOptions options) {
  options.recipe.rate = 0.01;
  options.learner.optimizer.kind = "adamw";
  options.learner.optimizer.weight_decay = 0.01;
  options.learner.ema_decay = 0.5;
  options.learner.reducer.max_norm = 0.5;
  return options;
}

/// What a step of rank 0 sends, and what it keeps.
std::pair<std::uint64_t, MemoryTable> costs_of(int ranks, const TrainerOptions& options) {
  const auto data = small_set(8, 2);
  std::pair<std::uint64_t, MemoryTable> costs;
  const auto errors = run_shm_ranks(ranks, [&](ProcessGroup& group) {
    Trainer trainer(data, &group, options);
    Score score;
    std::uint64_t payload = 0;
    trainer.train_epoch([&](const StepReport& report) { payload = report.step.payload; }, score);
    if (group.rank() == 0) costs = {payload, trainer.memory()};
  });
  CHECK(errors == std::vector<std::string>(errors.size()));
  return costs;
}

}  // namespace

TEST_CASE("Copies of a model stay alike, and have the same bits in every form") {
  const auto data = small_set(29, 5);
  const auto whole = run_world(6, data, with_everything(shards_of(0, Form::ddp)), 2);
  for (const int sharing : {2, 3}) {
    const auto wanted = run_world(6, data, with_everything(shards_of(sharing, Form::zero1)), 2);
    // Sums round in another order.
    CHECK(wanted.train.mean_loss == Approx(whole.train.mean_loss).epsilon(1e-4));
    CHECK(wanted.test.mean_loss == Approx(whole.test.mean_loss).epsilon(1e-4));
    for (const Form form : {Form::zero2, Form::fsdp}) {
      INFO(muster::name_of(form) << ", " << sharing << " ranks");
      CHECK(run_world(6, data, with_everything(shards_of(sharing, form)), 2).hash == wanted.hash);
    }
  }
  // A copy of a rank's own is ddp, and shards of all ranks are what they are without a number.
  CHECK(run_world(6, data, with_everything(shards_of(1, Form::fsdp)), 2).hash == whole.hash);
  CHECK(run_world(6, data, with_everything(shards_of(6, Form::fsdp)), 2).hash == whole.hash);
}

TEST_CASE("A rank keeps its part of one copy, and sends one part of the gradients to the other copies") {
  for (const Form form : {Form::zero1, Form::zero2, Form::fsdp}) {
    INFO(muster::name_of(form));
    const auto [sent, memory] = costs_of(4, shards_of(2, form, "mlp-8"));
    const auto [sent_by_two, of_two] = costs_of(2, shards_of(0, form, "mlp-8"));
    CHECK(memory.parameters == of_two.parameters);
    CHECK(memory.gradients == of_two.gradients);
    CHECK(memory.optimizer_state == of_two.optimizer_state);
    // The header goes through all ranks, and the sum of each part through those that have it.
    const std::uint64_t part = of_two.optimizer_state;
    const std::uint64_t header = muster::parallel::kHeaderFloats * sizeof(float);
    CHECK(sent == sent_by_two + 2 * header * 3 / 4 - 2 * header / 2 + 2 * part / 2);
  }
}

namespace {

using State = std::map<std::string, std::vector<float>>;

/// The values with which a run of an epoch begins in a folder, and those that it leaves there.
std::pair<State, State> one_more(const std::string& folder, int ranks, const TrainerOptions& given) {
  const auto data = small_set(24, 4);
  const TrainerOptions options = with_everything(given);
  std::pair<State, State> run;
  std::mutex mutex;
  const auto add = [&](State& state, Learner& learner) {
    const std::lock_guard held(mutex);
    for (const auto& tensors : {learner.model_tensors(), learner.state_tensors()})
      for (const NamedTensor& tensor : tensors) {
        auto& values = state[tensor.name];
        values.resize(std::max(values.size(), tensor.first + tensor.elements));
        std::copy_n(tensor.values, tensor.elements,
                    values.begin() + static_cast<std::ptrdiff_t>(tensor.first));
      }
  };
  const auto errors = run_shm_ranks(ranks, [&](ProcessGroup& group) {
    CheckpointOptions checkpoints;
    checkpoints.folder = folder;
    Trainer trainer(data, &group, options);
    Checkpointing checkpointing(checkpoints, options, trainer, &group);
    checkpointing.begin();
    add(run.first, trainer.learner());
    Score score;
    trainer.train_epoch({}, score);
    trainer.next_epoch();
    checkpointing.save_now();
    add(run.second, trainer.learner());
  });
  CHECK(errors == std::vector<std::string>(errors.size()));
  return run;
}

}  // namespace

TEST_CASE("A checkpoint of several copies has each element once, and is read by any form") {
  const Folder folder;
  const std::string place = folder / "checkpoints";
  State left;
  int number = 0;
  const std::vector<std::pair<int, TrainerOptions>> runs = {
      {4, shards_of(2, Form::fsdp)}, {4, shards_of(0, Form::fsdp)},  {6, shards_of(3, Form::zero1)},
      {2, shards_of(0, Form::ddp)},  {4, shards_of(2, Form::zero2)}, {6, shards_of(2, Form::fsdp)}};
  for (const auto& [ranks, options] : runs) {
    INFO("run " << ++number);
    const auto run = one_more(place, ranks, options);
    if (!left.empty()) CHECK(run.first == left);
    CHECK(run.second != run.first);
    left = run.second;
    if (ranks == 2) continue;
    const std::string newest = place + "/" + muster::checkpoint::list_checkpoints(place).front();
    for (int rank = 0; rank < ranks; ++rank) {
      const auto bytes = std::filesystem::file_size(newest + "/state-" + std::to_string(rank) + "-of-" +
                                                    std::to_string(ranks) + ".safetensors");
      const double even = 3.0 * 4 * 545'098 / ranks;  // two of AdamW and the average
      CHECK(static_cast<double>(bytes) < 1.3 * even);
    }
  }
}

TEST_CASE("Copies that would begin with other values begin with the first one's") {
  const auto data = small_set(8, 2);
  for (const Form form : {Form::zero1, Form::fsdp}) {
    std::vector<std::uint64_t> hashes(4);
    const auto errors = run_shm_ranks(4, [&](ProcessGroup& group) {
      TrainerOptions options = shards_of(2, form);
      options.learner.seed = group.rank() < 2 ? 1 : 2;
      Trainer trainer(data, &group, options);
      hashes[static_cast<std::size_t>(group.rank())] = trainer.learner().parameter_hash();
    });
    CHECK(errors == std::vector<std::string>(4));
    const auto alone = run_shm_ranks(2, [&](ProcessGroup& group) {
      TrainerOptions options = shards_of(0, form);
      options.learner.seed = 1;
      Trainer trainer(data, &group, options);
      if (trainer.learner().parameter_hash() != hashes[0]) throw std::runtime_error("other values");
    });
    CHECK(alone == std::vector<std::string>(2));
  }
}

TEST_CASE("Ranks that differ in who has a copy, and copies that the ranks do not divide into, are errors") {
  const auto data = small_set(8, 2);
  const auto errors_of = [&](int first, int others) {
    return run_shm_ranks(4, [&](ProcessGroup& group) {
      Trainer trainer(data, &group, shards_of(group.rank() == 0 ? first : others, Form::fsdp));
    });
  };
  for (const std::string& error : errors_of(2, 4))
    CHECK_THAT(error, Contains("the ranks train different models") && Contains("shards of 2 ranks") &&
                          Contains("shards of 4 ranks"));
  for (const std::string& error : errors_of(3, 3))
    CHECK_THAT(error, Contains("that 3 ranks have together do not go into 4 ranks"));
}

TEST_CASE("The estimate of memory knows copies of a model") {
  const auto plan = muster::nn::plan_of(muster::nn::built_in("mlp-8", 10));
  KernelMemory kernels;
  kernels.of = [](std::span<const muster::nn::BatchSize>) { return muster::nn::MemoryUse{}; };
  const auto estimate = [&](int ranks, int sharing) {
    return estimate_memory(plan, shards_of(sharing, Form::fsdp, "mlp-8"), {64, 8}, ranks, kernels, true)
        .table;
  };
  const MemoryTable of_copies = estimate(8, 2);
  const MemoryTable of_two = estimate(2, 0);
  CHECK(of_copies.parameters == of_two.parameters);
  CHECK(of_copies.optimizer_state == of_two.optimizer_state);
  CHECK(of_copies.checkpoint == of_two.checkpoint / 4);
  CHECK(form_of(shards_of(1, Form::fsdp), 4) == "ddp");
  CHECK(form_of(shards_of(2, Form::fsdp), 4) == "fsdp");
}

}  // namespace shards_within_test
