// SPDX-License-Identifier: Apache-2.0
// Ranks that train on devices whose gradients are summed by NCCL inside the recorded steps: with the real
// plug-ins, on the fakes of the driver, of cuDNN and of NCCL, whose queues are delayed at random.
#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/fakes/cuda/fake_cuda.hpp"
#include "tests/integration/comm/rank_results.hpp"
#include "tests/integration/nccl/nccl_world.hpp"
#include "tests/support/shm_ranks.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "worker_sdk/muster_train/data/synthetic.hpp"
#include "worker_sdk/muster_train/trainer/trainer.hpp"
#include "worker_sdk/nn/gpu/plugin/device.hpp"
#include "worker_sdk/parallel/compression.hpp"

#include <unistd.h>

#include <tuple>

namespace muster {
namespace {

using train::Score;
using train::Stop;
using train::TrainerOptions;

data::ImageData some_data(std::size_t images) {
  data::SyntheticOptions options;
  options.train_images = images;
  options.test_images = 5;
  return data::make_synthetic(options);
}

/// With 15 images the last step of an epoch has 7: 4 and 3, where a whole one has 4 and 4.
TrainerOptions some_options() {
  TrainerOptions options;
  options.batch_size = 2;
  options.accumulation = 2;
  options.recipe.rate = 0.02;
  options.learner.ema_decay = 0.9;
  options.learner.reducer.max_norm = 1;
  options.learner.reducer.meet_first = true;
  options.learner.reducer.first_bucket_bytes = 4096;
  options.learner.reducer.bucket_bytes = 65536;
  options.check_every = 1;
  return options;
}

/// One micro-batch a step, batch norm over all ranks.
TrainerOptions norm_options() {
  TrainerOptions options;
  options.learner.model = "resnet18-imagenet-stem";
  options.learner.sync_batch_norm = true;
  options.batch_size = 2;
  options.recipe.rate = 0.001;
  return options;
}

/// Gradients that travel in 16 bits, rounded by kernels on the one side and by the hook on the other.
TrainerOptions half_options(DataType type) {
  TrainerOptions options = some_options();
  options.learner.reducer.hook = make_half_hook(type);
  return options;
}

/// Hash and scores of a run, as text.
std::string outcome(ProcessGroup& group, nn::gpu::Ops& ops, TrainerOptions options, int epochs,
                    const std::function<void(std::int64_t)>& on_step) {
  const data::ImageData data = some_data(options.learner.sync_batch_norm ? 8 : 15);
  options.device = &ops;
  // Ranks that are threads do not share what a hook keeps.
  std::shared_ptr<BucketHook>& hook = options.learner.reducer.hook;
  if (hook != nullptr) hook = make_half_hook(*hook->wire_type());
  train::Trainer trainer(data, &group, options);
  Score score;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    (void)trainer.train_epoch([&](const train::StepReport& step) { on_step(step.position.step); }, score);
    trainer.next_epoch();
  }
  Score test;
  (void)trainer.evaluate(test);
  return std::to_string(trainer.learner().parameter_hash()) + " " + std::to_string(score.mean_loss) + " " +
         std::to_string(test.mean_loss) + " " + std::to_string(test.samples);
}

}  // namespace

TEST_CASE("steps whose sums NCCL makes in their graphs are those with sums through the host") {
  // Of the first: the first micro-batch, and the last one of steps of two sizes.
  const auto generated =
      GENERATE(std::tuple(some_options(), 3, 3), std::tuple(norm_options(), 1, 1),
               std::tuple(half_options(DataType::bf16), 3, 3), std::tuple(half_options(DataType::f16), 3, 3));
  const TrainerOptions trainer_options = std::get<0>(generated);
  const int epochs = std::get<1>(generated);
  const int parts = std::get<2>(generated);
  test::FakeGpus fakes;
  fakes.set("FAKE_CUDA_SEED", "1");
  const test::StoreProcess store;
  const auto results = test::run_processes(2, store.port(), [&](int rank, StoreClient& keys) {
    ProcessGroupOptions options;
    options.timeout = std::chrono::seconds(60);
    const auto group = test::make_nccl_group(keys, rank, 2, options);
    const auto ops = nn::gpu::open_device("cuda", rank);
    int recorded = 0;
    std::string text = outcome(*group, *ops, trainer_options, epochs,
                               [&](std::int64_t) { recorded = fake_cuda_live_graphs(); });
    if (recorded != parts) text += ", with " + std::to_string(recorded) + " recorded parts";
    return text;
  });
  CHECK(fakes.violations() == "");
  std::vector<std::string> wanted(2);
  const auto errors = test::run_shm_ranks(2, [&](ProcessGroup& group) {
    nn::gpu::HostOps ops;
    wanted[static_cast<std::size_t>(group.rank())] =
        outcome(group, ops, trainer_options, epochs, [](std::int64_t) {});
  });
  for (const std::string& error : errors) CHECK(error == "");
  test::check_returned(results, wanted[0]);
}

TEST_CASE("training on CPUs sums in memory of the host where the group moves memory of devices") {
  TrainerOptions trainer_options = some_options();
  trainer_options.learner.sync_batch_norm = GENERATE(false, true);
  const data::ImageData data = some_data(15);
  const auto train = [&](ProcessGroup& group) {
    train::Trainer trainer(data, &group, trainer_options);
    Score score;
    (void)trainer.train_epoch([](const train::StepReport&) {}, score);
    return std::to_string(trainer.learner().parameter_hash()) + " " + std::to_string(score.mean_loss);
  };
  const test::FakeGpus fakes;
  const test::StoreProcess store;
  const auto results = test::run_processes(2, store.port(), [&](int rank, StoreClient& keys) {
    ProcessGroupOptions options;
    options.timeout = std::chrono::seconds(60);
    return train(*test::make_nccl_group(keys, rank, 2, options));
  });
  CHECK(fakes.violations() == "");
  std::vector<std::string> wanted(2);
  const auto errors = test::run_shm_ranks(
      2, [&](ProcessGroup& group) { wanted[static_cast<std::size_t>(group.rank())] = train(group); });
  for (const std::string& error : errors) CHECK(error == "");
  test::check_returned(results, wanted[0]);
}

TEST_CASE("a rank that ends while recorded steps wait for it is named, and nothing hangs") {
  test::FakeGpus fakes;
  fakes.set("FAKE_CUDA_SEED", "1");
  const test::StoreProcess store;
  const auto results = test::run_processes(2, store.port(), [](int rank, StoreClient& keys) {
    ProcessGroupOptions options;
    options.timeout = std::chrono::seconds(60);
    const auto group = test::make_nccl_group(keys, rank, 2, options);
    const auto ops = nn::gpu::open_device("cuda", rank);
    return outcome(*group, *ops, some_options(), 4, [rank](std::int64_t step) {
      if (rank == 1 && step == 6) _exit(7);
    });
  });
  test::check_failed({results[0]}, ErrorCode::peer_lost, {"rank 1"});
  CHECK(fakes.violations() == "");
}

}  // namespace muster
