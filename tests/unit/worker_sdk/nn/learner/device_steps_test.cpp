// SPDX-License-Identifier: Apache-2.0
// Whole steps on a device, which is the host, against a plain loop over the CPU's parts.
#include "muster/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/shm_ranks.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "worker_sdk/muster_train/data/synthetic.hpp"
#include "worker_sdk/nn/data/images.hpp"
#include "worker_sdk/nn/initialize.hpp"
#include "worker_sdk/nn/learner/learner.hpp"
#include "worker_sdk/nn/loss.hpp"
#include "worker_sdk/nn/models/make_network.hpp"
#include "worker_sdk/nn/network.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace muster::train {
namespace {

using nn::gpu::HostOps;

data::ImageData some_data() {
  data::SyntheticOptions options;
  options.train_images = 40;
  options.test_images = 10;
  return data::make_synthetic(options);
}

LearnerTask small_task() {
  LearnerTask task;
  task.batch_size = 3;
  task.loader.augmentation = {4, true, 5};
  task.options.seed = 3;
  task.options.optimizer.weight_decay = 0.01;
  task.options.label_smoothing = 0.1;
  task.options.reducer.first_bucket_bytes = task.options.reducer.last_bucket_bytes = 4096;
  task.options.reducer.bucket_bytes = 65536;
  return task;
}

/// The same steps by the CPU's network, loss, loader and optimizer.
class Reference {
 public:
  explicit Reference(const LearnerTask& task)
      : task_(task),
        layout_(parallel::plan_buckets(nn::model_spec(task.options.model).parameters, task.options.reducer)),
        network_(nn::make_network(task.options.model, {})) {
    values_.resize(layout_.elements);
    gradients_.resize(layout_.elements);
    for (std::size_t i = 0; i < spec().parameters.size(); ++i)
      slots_.push_back({&values_[layout_.offsets[i]], &gradients_[layout_.offsets[i]]});
    nn::initialize(spec(), slots_, task.options.seed);
    network_->bind(slots_, {});
    optim::Arena arena = {values_.data(), gradients_.data(), values_.size(), {}};
    // Ascending: the last parameter lies first.
    for (std::size_t i = spec().parameters.size(); i-- > 0;)
      if (spec().parameters[i].decay)
        arena.decay.push_back({layout_.offsets[i], layout_.offsets[i] + spec().parameters[i].elements()});
    optimizer_ = optim::make_optimizer(task.options.optimizer, arena);
  }

  const nn::ModelSpec& spec() const { return network_->spec(); }

  double step(const data::Images& images, std::span<const std::uint32_t> batch, int epoch, float rate,
              std::size_t samples) {
    std::vector<float> input(batch.size() * data::kImageBytes);
    std::vector<std::uint8_t> labels(batch.size());
    std::vector<float> gradient(batch.size() * 10);
    data::gather(images, batch, task_.loader.normalization, task_.loader.augmentation, epoch, input.data(),
                 labels.data());
    network_->parameters_changed();
    const float* logits =
        network_->forward(input.data(), static_cast<std::int64_t>(batch.size()), nn::Mode::train);
    const nn::BatchScore score = nn::softmax_cross_entropy(logits, labels.data(), batch.size(), 10,
                                                           gradient.data(), task_.options.label_smoothing);
    network_->backward(gradient.data(), [](std::size_t) {});
    optimizer_->begin_step();
    optimizer_->step(0, values_.size(), rate, 1.0F / static_cast<float>(samples));
    return score.loss;
  }

  const std::vector<nn::ParameterSlot>& slots() const { return slots_; }

 private:
  const LearnerTask task_;
  const parallel::BucketLayout layout_;
  std::unique_ptr<nn::Network> network_;
  std::vector<float> values_, gradients_;
  std::vector<nn::ParameterSlot> slots_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

void require_near(const Reference& reference, Learner& learner) {
  const std::vector<NamedTensor> tensors = learner.model_tensors();
  for (std::size_t i = 0; i < reference.slots().size(); ++i) {
    double difference = 0;
    for (std::size_t k = 0; k < tensors[i].elements; ++k)
      difference = std::max(difference, std::abs(static_cast<double>(tensors[i].values[k]) -
                                                 static_cast<double>(reference.slots()[i].value[k])));
    CAPTURE(tensors[i].name);
    CHECK(difference < 2e-5);
  }
}

std::vector<std::uint32_t> first_images(std::size_t count, std::uint32_t from = 0) {
  std::vector<std::uint32_t> images(count);
  std::iota(images.begin(), images.end(), from);
  return images;
}

/// Loss and correct answers of test images, batch by batch.
nn::BatchScore evaluate(Learner& learner, const BatchPlan& batches) {
  nn::BatchScore sum;
  learner.begin_evaluation(batches);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const nn::BatchScore score = learner.score();
    sum.loss += score.loss;
    sum.correct += score.correct;
  }
  learner.end_evaluation();
  return sum;
}

}  // namespace

TEST_CASE("Recorded steps train as the CPU does, over epochs and batches of two sizes") {
  const data::ImageData data = some_data();
  LearnerTask task = small_task();
  task.options.optimizer.kind = GENERATE(as<std::string>(), "sgd", "adamw");
  // Adam divides by the size of a gradient: where that is next to nothing its last bits would become a step.
  task.options.optimizer.epsilon = 1e-3;
  const float rate = task.options.optimizer.kind == "sgd" ? 0.05F : 0.001F;
  HostOps ops;
  Learner learner(task, data, nullptr, &ops);
  Reference reference(task);
  const BatchPlan batches = {{3, 9, 27}, {1, 0, 39}, {5}};
  double loss = 0;
  double wanted = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    learner.begin_epoch(batches, epoch);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const float own_rate = rate / static_cast<float>(1 + i);
      const StepResult result = learner.step({1, own_rate, batches[i].size(), {}});
      loss += result.loss;
      wanted += reference.step(data.train, batches[i], epoch, own_rate, batches[i].size());
      CHECK(result.samples == static_cast<std::int64_t>(batches[i].size()));
      // Times of replayed steps, too, are those of this step.
      const StepTimes& times = result.times;
      CHECK(std::min({times.data_wait, times.forward, times.backward, times.optimizer}) >= 0);
      CHECK(std::min(times.forward, times.backward) > 0);
      CHECK(times.data_wait + times.forward + times.backward + times.optimizer <= times.total);
    }
  }
  require_near(reference, learner);
  CHECK(ops.captures() == 2);
  CHECK(ops.sides() > 4 * 2);
  CHECK(loss == Approx(wanted).epsilon(1e-4));
}

TEST_CASE("The average of weights follows them on a device, with momentum and without") {
  const data::ImageData data = some_data();
  LearnerTask task = small_task();
  task.options.optimizer.momentum = GENERATE(0.0, 0.9);
  CAPTURE(task.options.optimizer.momentum);
  task.options.ema_decay = 0.8;
  HostOps ops;
  Learner learner(task, data, nullptr, &ops);
  learner.begin_epoch({{3, 9, 27}, {1, 0, 39}}, 0);
  std::vector<float> wanted;
  for (int step = 0; step < 2; ++step) {
    (void)learner.step({1, 0.05F, 3, {}});
    const NamedTensor weights = learner.model_tensors().front();
    for (std::size_t i = 0; i < weights.elements; ++i)
      if (step == 0)
        wanted.push_back(weights.values[i]);
      else
        wanted[i] += 0.2F * (weights.values[i] - wanted[i]);
  }
  const NamedTensor average = learner.model_tensors(true).front();
  double difference = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    difference = std::max(difference, std::abs(static_cast<double>(average.values[i] - wanted[i])));
  CHECK(difference < 1e-6);
}

TEST_CASE("A gradient is the sum over devices divided by the samples of all, where one has none, too") {
  const data::ImageData data = some_data();
  LearnerTask task = small_task();
  task.options.reducer.max_norm = GENERATE(0.0, 1e6);
  task.options.reducer.meet_first = task.options.reducer.max_norm > 0;
  const BatchPlan first = {{0, 1, 2}, {6, 7}, {}};
  const BatchPlan second = {{3, 4, 5}, {}, {}};
  Reference reference(task);
  reference.step(data.train, first_images(6), 0, 0.05F, 6);
  reference.step(data.train, first_images(2, 6), 0, 0.05F, 2);
  const auto errors = test::run_shm_ranks(2, [&](ProcessGroup& group) {
    HostOps ops;
    Learner learner(task, data, &group, &ops);
    learner.begin_epoch(group.rank() == 0 ? first : second, 0);
    for (const std::int64_t samples : {6, 2}) {
      const StepResult result = learner.step({1, 0.05F, static_cast<std::size_t>(samples), {}});
      if (result.samples != samples) throw std::runtime_error("wrong number of samples");
      if (result.times.communication <= 0) throw std::runtime_error("sums took no time");
    }
    const std::uint64_t hash = learner.parameter_hash();
    (void)learner.step({1, 0.05F, 0, {}});
    if (learner.parameter_hash() != hash)
      throw std::runtime_error("a step without samples changed something");
    // The checks are for one thread.
    if (group.rank() == 0) require_near(reference, learner);
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("With statistics of all ranks, devices record every part of a step together") {
  const data::ImageData data = some_data();
  LearnerTask task = small_task();
  task.accumulation = 4;
  task.options.sync_batch_norm = true;
  using Counts = std::vector<std::size_t>;
  // Steps of all ranks' images, and what each of two ranks has of them: parts that both have had alone, parts
  // that are alike within a step of one rank alone.
  const auto [shape, first, second] =
      GENERATE(table<std::size_t, Counts, Counts>({{5, {3, 0}, {2, 0}}, {17, {3, 3, 3, 0}, {3, 3, 2, 0}}}));
  CAPTURE(shape);
  HostOps ops_of_first;
  HostOps ops_of_second;
  Learner one(task, data, nullptr, &ops_of_first);
  Learner two(task, data, nullptr, &ops_of_second);
  const auto step = [](Learner& learner, const Counts& counts, std::size_t images) {
    BatchPlan batches;
    for (const std::size_t count : counts) batches.push_back(first_images(count));
    learner.begin_epoch(batches, 0);
    (void)learner.step({static_cast<int>(counts.size()), 0.01F, images, {}});
  };
  for (const bool full : {true, true, false, false, false}) {
    const Counts whole(first.size(), 3);
    const std::size_t size = full ? 2 * 3 * first.size() : shape;
    step(one, full ? whole : first, size);
    step(two, full ? whole : second, size);
    CAPTURE(full);
    CHECK(ops_of_first.captures() == ops_of_second.captures());
  }
  CHECK(static_cast<std::size_t>(ops_of_first.captures()) == 2 * first.size());
}

TEST_CASE("An evaluation on a device counts every test image once and changes nothing") {
  const data::ImageData data = some_data();
  HostOps ops;
  const LearnerTask task = small_task();
  Learner learner(task, data, nullptr, &ops);
  const nn::BatchScore whole =
      evaluate(learner, {first_images(3), first_images(3, 3), first_images(3, 6), {9}});
  const nn::BatchScore first = evaluate(learner, {first_images(3)});
  const nn::BatchScore second = evaluate(learner, {first_images(3, 3), first_images(3, 6), {9}});
  CHECK(first.loss + second.loss == Approx(whole.loss));
  CHECK(first.correct + second.correct == whole.correct);
  CHECK(whole.correct <= 10);
  require_near(Reference(task), learner);
}

TEST_CASE("Weights are packed once for all batches that are evaluated, and anew when they changed") {
  class Counting final : public HostOps {
   public:
    void launch(nn::gpu::KernelNumber number, const void* kernel, const nn::gpu::Grid& grid) override {
      packed += number == nn::gpu::KernelNumber::pack_weights_f32 ? 1 : 0;
      HostOps::launch(number, kernel, grid);
    }

    int packed = 0;
  };

  const data::ImageData data = some_data();
  Counting ops;
  Learner learner(small_task(), data, nullptr, &ops);
  const auto packed_by = [&](const auto& work) {
    const int before = ops.packed;
    work();
    return ops.packed - before;
  };
  nn::BatchScore score;
  const auto score_some = [&] { score = evaluate(learner, {first_images(2), first_images(2, 2)}); };
  // Of four weights, floats of a linear layer without padding are read where they are.
  CHECK(packed_by(score_some) == 3);
  CHECK(packed_by(score_some) == 0);
  learner.begin_epoch({{1, 2, 3}}, 0);
  (void)learner.step({1, 0.1F, 3, {}});
  score_some();
  const double loss = score.loss;
  const NamedTensor bias = learner.model_tensors().at(7);
  std::fill_n(bias.values, bias.elements, 3.0F);
  bias.values[2] = 100.0F;
  learner.share_state();
  CHECK(packed_by(score_some) == 3);
  CHECK(score.loss != loss);
}

TEST_CASE("What cannot be is refused before it reaches a device") {
  const data::ImageData data = some_data();
  HostOps ops;
  Learner learner(small_task(), data, nullptr, &ops);
  CHECK_THROWS_AS(learner.begin_epoch({{40}}, 0), Error);
  CHECK_THROWS_AS(learner.begin_epoch({first_images(4)}, 0), Error);
  learner.begin_epoch({{1, 2}, {3}}, 0);
  CHECK_THROWS_AS(learner.step({2, 0.1F, 3, {}}), Error);
  (void)learner.step({1, 0.1F, 2, {}});
  (void)learner.step({1, 0.1F, 1, {}});
  CHECK_THROWS_AS(learner.step({1, 0.1F, 1, {}}), Error);
  CHECK_THROWS_AS(learner.begin_evaluation({{10}}), Error);
}

}  // namespace muster::train
