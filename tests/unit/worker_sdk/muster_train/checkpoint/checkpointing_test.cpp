// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/checkpoint/checkpointing.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/muster_train/training.hpp"
#include "tests/unit/worker_sdk/nn/checkpoint/folder.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"

#include <cmath>
#include <filesystem>
#include <limits>

using namespace muster::train;
using muster::test::error_of;
using muster::test::Folder;

namespace {

/// A run alone on a few images: two steps an epoch.
struct SmallRun {
  explicit SmallRun(const CheckpointOptions& checkpoints, const TrainerOptions& run = options())
      : data(muster::test::small_set(20, 4)),
        trainer(data, nullptr, run),
        checkpointing(checkpoints, run, trainer, nullptr) {}

  SmallRun(const SmallRun&) = delete;
  SmallRun& operator=(const SmallRun&) = delete;

  static TrainerOptions options() {
    TrainerOptions options;
    options.batch_size = 10;
    return options;
  }

  void train() {
    Score score;
    trainer.train_epoch({}, score);
  }

  muster::data::ImageData data;
  Trainer trainer;
  Checkpointing checkpointing;
};

CheckpointOptions in_folder(const Folder& folder) {
  CheckpointOptions options;
  options.folder = folder / "checkpoints";
  return options;
}

std::vector<std::string> written(const CheckpointOptions& options) {
  std::vector<std::string> paths;
  for (const std::string& name : muster::checkpoint::list_checkpoints(options.folder))
    paths.push_back(options.folder + "/" + name);
  return paths;
}

}  // namespace

TEST_CASE("Weights that are no numbers are neither kept nor exported, and what was kept stays") {
  const Folder folder;
  CheckpointOptions options = in_folder(folder);
  options.export_file = folder / "weights";
  SmallRun run(options);
  run.checkpointing.begin();
  run.train();
  const std::string good = run.checkpointing.save_now();
  run.trainer.next_epoch();
  float& weight = *run.trainer.learner().model_tensors()[2].values;
  weight = std::numeric_limits<float>::infinity();
  const std::string why = error_of([&] { run.checkpointing.save_now(); });
  CHECK_THAT(why, Contains("step 2: ") && Contains(run.trainer.learner().model_tensors()[2].name) &&
                      Contains("is no longer finite, so no checkpoint of it is written") && Contains(good));
  CHECK(written(options) == std::vector<std::string>{good});
  weight = std::numeric_limits<float>::quiet_NaN();
  CHECK_THAT(error_of([&] { run.checkpointing.finish(); }), Contains("the weights are not exported"));
  CHECK_FALSE(std::filesystem::exists(options.export_file));
}

TEST_CASE(
    "A state that is not finite replaces no checkpoint between epochs either, though the loss is a number") {
  const Folder folder;
  CheckpointOptions options = in_folder(folder);
  options.every = 1;
  options.keep = 1;
  TrainerOptions adam = SmallRun::options();
  adam.learner.optimizer.kind = "adamw";
  std::string why;
  {
    SmallRun run(options, adam);
    run.checkpointing.begin();
    const auto on_step = [&](const StepReport& report) {
      for (const NamedTensor& tensor : run.trainer.learner().state_tensors())
        if (report.position.step == 2 && tensor.name == "exp_avg_sq/fc1.weight")
          tensor.values[5000] = std::numeric_limits<float>::infinity();  // a weight that no longer moves
      run.checkpointing.after_step();
    };
    why = error_of([&] {
      for (int epoch = 0; epoch < 2; ++epoch) {
        Score score;
        run.trainer.train_epoch(on_step, score);
        run.trainer.next_epoch();
      }
    });
  }
  CHECK_THAT(why, Contains("step 2: exp_avg_sq/fc1.weight is no longer finite, so no checkpoint of it is"));
  CHECK(written(options) == std::vector<std::string>{options.folder + "/000001-step-1"});
}

TEST_CASE("A state that the newest checkpoint holds is not written again, now or by a later run") {
  const Folder folder;
  CheckpointOptions options = in_folder(folder);
  std::string path;
  {
    SmallRun run(options);
    run.checkpointing.begin();
    run.train();
    path = run.checkpointing.save_now();
    CHECK(run.checkpointing.save_now() == path);
  }
  {
    SmallRun again(options);
    again.checkpointing.begin();
    CHECK(again.checkpointing.save_now() == path);
    CHECK(written(options).size() == 1);
    again.trainer.next_epoch();
    CHECK(again.checkpointing.save_now() != path);
    CHECK(written(options).size() == 2);
  }
  CheckpointOptions other = options;
  other.folder = folder / "other";
  other.resume_from = path;
  SmallRun elsewhere(other);
  elsewhere.checkpointing.begin();
  CHECK(elsewhere.checkpointing.save_now() == other.folder + "/000001-step-2");
}

TEST_CASE("A run that goes on with other steps says so") {
  const Folder folder;
  CheckpointOptions options = in_folder(folder);
  {
    SmallRun run(options);
    run.checkpointing.begin();
    run.train();
    run.checkpointing.save_now();
  }
  for (const int accumulation : {1, 2}) {
    TrainerOptions steps = SmallRun::options();
    steps.accumulation = accumulation;
    SmallRun again(options, steps);
    const std::vector<std::string> notes = again.checkpointing.begin();
    REQUIRE(notes.size() == static_cast<std::size_t>(accumulation));
    CHECK_THAT(notes.back(), Contains("resumed from "));
    if (accumulation == 2) CHECK_THAT(notes.front(), Contains("keeps the steps"));
  }
}

TEST_CASE("A resumed run makes Adam's next step, not its first") {
  const Folder folder;
  TrainerOptions adam = SmallRun::options();
  adam.learner.optimizer.kind = "adam";
  SmallRun whole(CheckpointOptions(), adam);
  whole.train();
  whole.trainer.next_epoch();
  whole.train();
  {
    SmallRun first(in_folder(folder), adam);
    first.checkpointing.begin();
    first.train();
    first.trainer.next_epoch();
    first.checkpointing.save_now();
  }
  SmallRun second(in_folder(folder), adam);
  second.checkpointing.begin();
  second.train();
  CHECK(second.trainer.learner().parameter_hash() == whole.trainer.learner().parameter_hash());
}

TEST_CASE("A run in fp16 goes on with the scale of its loss and the same bits") {
  const Folder folder;
  muster::nn::gpu::HostOps ops;
  TrainerOptions half = SmallRun::options();
  half.device = &ops;
  half.learner.precision = muster::nn::Precision::f16;
  half.learner.optimizer.kind = "adam";
  half.recipe.rate = 0.001;
  // Of the two steps of the second epoch the first makes the 2,000; one of those before was left out.
  const LossScale left = {1024, LossScale::kGrowthSteps - 1, 1};
  SmallRun whole(CheckpointOptions(), half);
  whole.train();
  whole.trainer.next_epoch();
  whole.trainer.learner().loss_scale() = left;
  whole.train();
  CHECK(whole.trainer.learner().loss_scale() == LossScale{2048, 1, 1});
  {
    SmallRun first(in_folder(folder), half);
    first.checkpointing.begin();
    first.train();
    first.trainer.next_epoch();
    first.trainer.learner().loss_scale() = left;
    first.checkpointing.save_now();
  }
  SmallRun second(in_folder(folder), half);
  second.checkpointing.begin();
  CHECK(second.trainer.learner().loss_scale() == left);
  second.train();
  CHECK(second.trainer.learner().loss_scale() == LossScale{2048, 1, 1});
  CHECK(second.trainer.learner().parameter_hash() == whole.trainer.learner().parameter_hash());
}

TEST_CASE("Exported statistics count the batches that they are of") {
  const Folder folder;
  CheckpointOptions options;
  options.export_file = folder / "weights";
  TrainerOptions steps = SmallRun::options();
  steps.learner.model = "resnet18-imagenet-stem";
  steps.batch_size = 1;
  steps.accumulation = 2;
  SmallRun run(options, steps);
  run.trainer.max_steps = 3;
  run.train();
  run.checkpointing.finish();
  const muster::checkpoint::SafetensorsFile file(options.export_file);
  const auto* const tensor = file.find("bn1.num_batches_tracked");
  REQUIRE(tensor != nullptr);
  std::int64_t batches = 0;
  file.read(*tensor, std::as_writable_bytes(std::span(&batches, 1)));
  CHECK(batches == 6);
}

TEST_CASE("The average of the weights is counted once in the table of memory") {
  TrainerOptions averaged = SmallRun::options();
  averaged.learner.ema_decay = 0.9;
  const MemoryTable with = SmallRun(CheckpointOptions(), averaged).trainer.memory();
  const MemoryTable without = SmallRun(CheckpointOptions()).trainer.memory();
  CHECK(with.average > 0);
  CHECK(without.average == 0);
  CHECK(with.optimizer_state == without.optimizer_state);
}

TEST_CASE("A run that starts anew leaves what was there, also what it goes on from") {
  const Folder folder;
  CheckpointOptions options = in_folder(folder);
  options.keep = 1;
  {
    SmallRun run(options);
    run.checkpointing.begin();
    run.train();
    run.checkpointing.save_now();
  }
  const std::string first = written(options).at(0);
  options.resume = false;
  for (const std::string& from : {std::string(), first}) {
    options.resume_from = from;
    SmallRun anew(options);
    anew.checkpointing.begin();
    CHECK(anew.trainer.position().step == (from.empty() ? 0 : 2));
    anew.train();
    anew.checkpointing.save_now();
  }
  CHECK(written(options).size() == 3);
  CHECK(written(options).back() == first);
}

TEST_CASE("A checkpoint whose numbers cannot be is refused, and the number is named") {
  const Folder folder;
  const CheckpointOptions options = in_folder(folder);
  SmallRun run(options);
  run.checkpointing.begin();
  run.train();
  CheckpointOptions from;
  from.resume_from = run.checkpointing.save_now();
  const std::string file = from.resume_from + "/manifest.json";
  const auto manifest = muster::checkpoint::manifest_from_json(muster::test::bytes_of_file(file));
  const auto refusal_of = [&](const char* name, std::int64_t value) {
    auto changed = manifest;
    changed.scalars.set(name, value);
    muster::test::write_file(file, muster::checkpoint::to_json(changed));
    SmallRun other(from);
    return error_of([&] { other.checkpointing.begin(); });
  };
  CHECK(refusal_of("sample", 20).empty());
  CHECK_THAT(refusal_of("sample", 21),
             Contains("checkpoint " + from.resume_from + ": sample is 21, not from 0 to 20"));
  CHECK_THAT(refusal_of("sample", -20), Contains("sample is -20, not"));
  CHECK_THAT(refusal_of("step", -5), Contains("step is -5, not"));
  CHECK_THAT(refusal_of("epoch", 4294967297), Contains("epoch is 4294967297, not"));
  CHECK_THAT(refusal_of("epoch", -1), Contains("epoch is -1, not"));
  CHECK_THAT(refusal_of("loss_scale", 1024), Contains("there is no loss_scale_steps"));
}
