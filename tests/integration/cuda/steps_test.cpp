// SPDX-License-Identifier: Apache-2.0
// The real libmuster_cuda.so on the fakes of CUDA and cuDNN: steps, eager and recorded, have the bits of the
// host's own device, whose numbers unit tests compare with the CPU's.
#include "muster/error.hpp"
#include "tests/fakes/cuda/environment.hpp"
#include "tests/fakes/cuda/fake_cuda.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "worker_sdk/muster_train/data/synthetic.hpp"
#include "worker_sdk/muster_train/trainer/trainer.hpp"
#include "worker_sdk/nn/gpu/plugin/device.hpp"

#include <map>
#include <string>
#include <vector>

namespace muster {
namespace {

using nn::Precision;

/// Steps of two micro-batches, and smaller ones at the end of an epoch; each is made twice before it is
/// replayed.
train::TrainerOptions some_options(Precision precision) {
  train::TrainerOptions options;
  options.batch_size = 2;
  options.accumulation = 2;
  options.recipe.rate = 0.02;
  options.learner.precision = precision;
  options.learner.ema_decay = 0.9;
  options.learner.optimizer.weight_decay = 0.01;
  options.learner.reducer.max_norm = 1;
  options.learner.reducer.first_bucket_bytes = 4096;
  options.learner.reducer.bucket_bytes = 65536;
  return options;
}

/// Hash and scores of three epochs; `notes` gets what the learner said.
std::string trained(nn::gpu::Ops& ops, Precision precision, bool records = true,
                    std::vector<std::string>* notes = nullptr) {
  data::SyntheticOptions synthetic;
  synthetic.train_images = 7;
  synthetic.test_images = 3;
  const data::ImageData data = data::make_synthetic(synthetic);
  train::TrainerOptions options = some_options(precision);
  options.device = &ops;
  options.learner.record_steps = records;
  train::Trainer trainer(data, nullptr, options);
  train::Score score;
  for (int epoch = 0; epoch < 3; ++epoch) {
    (void)trainer.train_epoch(
        [&](const train::StepReport&) {
          const std::string note = trainer.learner().take_note();
          if (notes != nullptr && !note.empty()) notes->push_back(note);
        },
        score);
    trainer.next_epoch();
  }
  train::Score test;
  (void)trainer.evaluate(test);
  return std::to_string(trainer.learner().parameter_hash()) + " " + std::to_string(score.mean_loss) + " " +
         std::to_string(test.mean_loss);
}

/// What the host's own device leaves; computed once.
const std::string& wanted(Precision precision) {
  static std::map<Precision, std::string> known;
  std::string& text = known[precision];
  if (!text.empty()) return text;
  nn::gpu::HostOps ops;
  return text = trained(ops, precision);
}

std::string train_on_plugin(Precision precision) {
  const auto ops = nn::gpu::open_device("cuda", 0);
  return trained(*ops, precision);
}

}  // namespace

TEST_CASE("the plug-in's steps have the bits of the host's kernels, whichever queue is slow") {
  const Precision precision = GENERATE(Precision::f32, Precision::bf16, Precision::f16);
  for (const char* seed : {"1", "2"}) {
    test::CudaFakes fakes;
    fakes.set("FAKE_CUDA_SEED", seed);
    CAPTURE(seed);
    CHECK(train_on_plugin(precision) == wanted(precision));
    CHECK(fakes.violations() == "");
    CHECK(fake_cuda_live_graphs() == 0);
    // What other ranks wait for comes first in a recorded step, too.
    CHECK(fake::launched_priorities().size() == 2);
  }
}

TEST_CASE("drivers from CUDA 12.2 on load the kernels for the device that they have") {
  struct Row {
    const char* driver;
    const char* capability;
  };

  // The last one is newer than all for which there is machine code.
  const Row row = GENERATE(
      values<Row>({{"12020", "75"}, {"12020", "90"}, {"12080", "120"}, {"13000", "86"}, {"13000", "130"}}));
  test::CudaFakes fakes;
  fakes.set("FAKE_CUDA_DRIVER", row.driver);
  fakes.set("FAKE_CUDNN_CUDART", "12020");
  fakes.set("FAKE_CUDA_CAPABILITY", row.capability);
  CAPTURE(row.driver, row.capability);
  CHECK(train_on_plugin(Precision::f32) == wanted(Precision::f32));
  CHECK(fakes.violations() == "");
}

TEST_CASE("plans that are measured, come from the fallback or behind one that cannot run compute the same") {
  const auto [variable, value] = GENERATE(table<std::string, std::string>({{"MUSTER_CUDA_AUTOTUNE", "1"},
                                                                           {"FAKE_CUDNN_PLANS", "fallback"},
                                                                           {"FAKE_CUDNN_PLANS", "broken"},
                                                                           {"FAKE_CUDNN_PLANS", "refuse"}}));
  test::CudaFakes fakes;
  fakes.set(variable, value);
  CAPTURE(variable, value);
  CHECK(train_on_plugin(Precision::f32) == wanted(Precision::f32));
  CHECK(fakes.violations() == "");
}

TEST_CASE("a step that cannot be recorded is made call by call, with the same bits, and said once") {
  const char* const fault = GENERATE("2@capture#1:0", "2@capture#2:0", "2@end of capture#1:0",
                                     "2@end of capture#3:0", "2@graph#1:0", "2@graph#2:0");
  test::CudaFakes fakes;
  fakes.set("FAKE_CUDA_FAULT", fault);
  CAPTURE(fault);
  const auto ops = nn::gpu::open_device("cuda", 0);
  std::vector<std::string> notes;
  CHECK(trained(*ops, Precision::f32, true, &notes) == wanted(Precision::f32));
  std::erase_if(notes, [](const std::string& note) { return note.starts_with("cuDNN"); });
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Contains("steps are not recorded on the GPU") && Contains("CUDA error 2"));
  CHECK(fakes.violations() == "");
}

TEST_CASE("steps that shall not be recorded have the same bits, and no graph") {
  test::CudaFakes fakes;
  fakes.set("FAKE_CUDA_FAULT", "2@capture#1:0");
  const auto ops = nn::gpu::open_device("cuda", 0);
  std::vector<std::string> notes;
  CHECK(trained(*ops, Precision::f32, false, &notes) == wanted(Precision::f32));
  for (const std::string& note : notes) CHECK_THAT(note, !Contains("recorded"));
}

TEST_CASE("where cuDNN has no plan the convolution is named") {
  test::CudaFakes fakes;
  fakes.set("FAKE_CUDNN_PLANS", GENERATE("none", "refuse all"));
  const std::string text =
      test::error_of([] { (void)train_on_plugin(Precision::f32); }, ErrorCode::unsupported);
  CHECK_THAT(text, Contains("has no plan for a convolution of 2 images of 32 x 32 x 8"));
}

TEST_CASE("what does not fit into the memory of a device is an error that says how much it was for what") {
  test::CudaFakes fakes;
  fakes.set("FAKE_CUDA_MEMORY", std::to_string((256 << 20) + (64 << 10)));
  const std::string text =
      test::error_of([] { (void)train_on_plugin(Precision::f32); }, ErrorCode::out_of_memory);
  CHECK_THAT(text, Contains("taking ") && Contains(" bytes for ") && Contains("a smaller batch"));
}

// The last of this process, whose device stays lost.
TEST_CASE("a device that fails while plans are measured is no missing plan") {
  test::CudaFakes fakes;
  fakes.set("MUSTER_CUDA_AUTOTUNE", "1");
  fakes.set("FAKE_CUDA_FAULT", "214@muster_gather_f32#1:0");
  const std::string text = test::error_of([] { (void)train_on_plugin(Precision::f32); }, ErrorCode::backend);
  CHECK_THAT(text, Contains("CUDA error 214") || Contains("cuDNN status"));
}

}  // namespace muster
