// SPDX-License-Identifier: Apache-2.0
// Steps in fp16, whose loss is scaled, on a device, which is the host.
#include "worker_sdk/nn/learner/loss_scale.hpp"

#include "muster/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/shm_ranks.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "worker_sdk/muster_train/data/synthetic.hpp"
#include "worker_sdk/nn/learner/learner.hpp"
#include "worker_sdk/parallel/power_sgd.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace muster::train {
namespace {

using nn::Precision;
using nn::gpu::Element;
using nn::gpu::HostOps;

/// A device whose next product of 32-bit floats, which is a gradient of weights, has an infinity in it.
class OverflowingOps final : public HostOps {
 public:
  void multiply(const nn::gpu::MultiplyCall& call) override {
    HostOps::multiply(call);
    if (call.result_element != Element::f32) return;
    put([this, result = static_cast<float*>(call.result)] {
      if (std::exchange(armed_, false)) *result = std::numeric_limits<float>::infinity();
    });
  }

  void arm() { armed_ = true; }

 private:
  bool armed_ = false;
};

data::ImageData some_data() {
  data::SyntheticOptions options;
  options.train_images = 12;
  options.test_images = 2;
  return data::make_synthetic(options);
}

LearnerTask task_in(Precision precision) {
  LearnerTask task;
  task.batch_size = 3;
  task.options.seed = 3;
  task.options.precision = precision;
  task.options.optimizer.kind = "adamw";
  // Adam divides by the size of a gradient: where that is next to nothing its last bits would become a step.
  task.options.optimizer.epsilon = 1e-3;
  task.options.ema_decay = 0.8;
  task.options.reducer.first_bucket_bytes = 4096;
  task.options.reducer.bucket_bytes = 65536;
  return task;
}

BatchPlan steps_of(std::size_t count) {
  return BatchPlan(count, {3, 9, 7});
}

/// The largest difference of two sets of tensors, and the largest value.
double apart(const std::vector<NamedTensor>& one, const std::vector<NamedTensor>& other) {
  double worst = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    for (std::size_t k = 0; k < one[i].elements; ++k)
      worst = std::max(
          worst, std::abs(static_cast<double>(one[i].values[k]) - static_cast<double>(other[i].values[k])));
  return worst;
}

}  // namespace

TEST_CASE("The scale is halved by an overflow, and doubled after 2,000 steps in a row without") {
  LossScale scale;
  for (int i = 0; i < 1999; ++i) scale.update(false);
  CHECK(scale == LossScale{65536, 1999, 0});
  scale.update(true);
  CHECK(scale == LossScale{32768, 0, 1});
  for (int i = 0; i < 2000; ++i) scale.update(false);
  CHECK(scale == LossScale{65536, 0, 1});
  scale.update(true);
  scale.update(true);
  CHECK(scale == LossScale{16384, 0, 3});
}

TEST_CASE("Steps in fp16 are near those in 32 bits, whatever the scale of the loss, recorded or not") {
  const data::ImageData data = some_data();
  LearnerTask task = task_in(Precision::f32);
  task.options.optimizer.kind = "sgd";
  task.options.reducer.max_norm = GENERATE(0.0, 0.5);
  HostOps exact_ops;
  Learner exact(task, data, nullptr, &exact_ops);
  task.options.precision = Precision::f16;
  HostOps ops;
  Learner learner(task, data, nullptr, &ops);
  learner.loss_scale() = {GENERATE(64.0, 65536.0), 0, 0};
  exact.begin_epoch(steps_of(4), 0);
  learner.begin_epoch(steps_of(4), 0);
  for (int step = 0; step < 4; ++step) {
    const StepResult wanted = exact.step({1, 0.01F, 3, {}});
    const StepResult got = learner.step({1, 0.01F, 3, {}});
    CHECK(got.loss == Approx(wanted.loss).epsilon(0.01));
    CHECK_FALSE(got.skipped);
    CHECK(got.loss_scale == learner.loss_scale().factor);
  }
  // A gradient as people see it is not scaled. (In the first layers ReLUs and maxima fall to other sides.)
  const std::size_t last_weights = learner.spec().parameters.size() - 2;
  const std::vector<float> gradient = learner.gradient(last_weights);
  const std::vector<float> wanted = exact.gradient(last_weights);
  double difference = 0;
  double largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(gradient[i] - wanted[i])));
    largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
  }
  CHECK(difference < 0.02 * largest);
  CHECK(apart(exact.model_tensors(), learner.model_tensors()) < 1e-3);
  CHECK(apart(exact.model_tensors(true), learner.model_tensors(true)) < 1e-3);
}

TEST_CASE(
    "Where one rank's gradient is too large for fp16 no rank makes the step, and it counts for nothing") {
  const data::ImageData data = some_data();
  const LearnerTask task = task_in(Precision::f16);
  // The first step: then nothing is there but what the seed made. The second one is recorded, the third
  // replayed.
  const int bad = GENERATE(0, 1, 2);
  CAPTURE(bad);
  const auto errors = test::run_shm_ranks(2, [&](ProcessGroup& group) {
    const auto require = [](bool holds, const char* what) {
      if (!holds) throw std::runtime_error(what);
    };
    OverflowingOps ops;
    Learner learner(task, data, &group, &ops);
    HostOps other_ops;
    Learner other(task, data, &group, &other_ops);
    other.loss_scale() = {32768, 0, 0};
    learner.begin_epoch(steps_of(4), 0);
    other.begin_epoch(steps_of(3), 0);
    for (int step = 0; step < 4; ++step) {
      const std::uint64_t before = learner.parameter_hash();
      if (step == bad && group.rank() == 1) ops.arm();
      const StepResult result = learner.step({1, 0.001F, 6, {}});
      require(result.skipped == (step == bad), "skipped");
      require((learner.parameter_hash() == before) == (step == bad), "parameters");
      if (step != bad) (void)other.step({1, 0.001F, 6, {}});
    }
    require(learner.loss_scale().skipped == 1 && learner.loss_scale().factor == 32768, "scale");
    // As if the step had not been: the scale is a power of two, which leaves no trace where nothing is too
    // small.
    require(apart(learner.state_tensors(), other.state_tensors()) < 1e-6, "state");
    require(apart(learner.model_tensors(), other.model_tensors()) < 1e-6, "weights");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("Gradients that are too large at a scale of 1 end the training") {
  const data::ImageData data = some_data();
  OverflowingOps ops;
  Learner learner(task_in(Precision::f16), data, nullptr, &ops);
  learner.loss_scale() = {1, 7, 0};
  learner.begin_epoch(steps_of(1), 0);
  ops.arm();
  CHECK_THAT(test::error_of([&] {
               (void)learner.step({1, 0.001F, 3, {}});
             }),
             Contains("step 1: gradients are too large for fp16 at every scale of the loss"));
}

TEST_CASE("A hook that remembers gradients is refused in fp16") {
  const data::ImageData data = some_data();
  LearnerTask task = task_in(Precision::f16);
  task.options.reducer.hook = make_power_sgd_hook({});
  HostOps ops;
  CHECK_THAT(test::error_of([&] { const Learner learner(task, data, nullptr, &ops); }),
             Contains("in fp16 gradients cannot be summed by ") && Contains("compute in bf16 or 32 bits"));
}

TEST_CASE("A state of the scale that no training leaves is not possible") {
  const LossScale left = {1024, 7, 3};
  CHECK(left.is_possible(3));
  CHECK_FALSE(left.is_possible(2));
  CHECK_FALSE(LossScale{0, 7, 3}.is_possible(3));
  CHECK_FALSE(LossScale{std::numeric_limits<double>::quiet_NaN(), 7, 3}.is_possible(3));
  CHECK_FALSE(LossScale{1e300, 7, 3}.is_possible(3));
  CHECK_FALSE(LossScale{1024, LossScale::kGrowthSteps, 3}.is_possible(3));
  CHECK_FALSE(LossScale{1024, -1, 3}.is_possible(3));
}

TEST_CASE("On processors fp16 is refused with the reason") {
  const data::ImageData data = some_data();
  CHECK_THAT(test::error_of([&] { const Learner learner(task_in(Precision::f16), data, nullptr); }),
             Contains("fp16 is a precision of GPUs"));
}

}  // namespace muster::train
