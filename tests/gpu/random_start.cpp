// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/random_start.hpp"

#include "rendezvous/base/philox.hpp"

#include <vector>

namespace muster::nn::gpu {

data::Images random_images(std::size_t count) {
  data::Images images;
  RandomStream random(1, 1);
  images.pixels.resize(count * data::kImageBytes);
  images.labels.resize(count);
  for (std::uint8_t& pixel : images.pixels) pixel = static_cast<std::uint8_t>(random.next() >> 24);
  for (std::uint8_t& label : images.labels) label = static_cast<std::uint8_t>(random.below(10));
  return images;
}

train::BatchPlan some_batches(std::size_t count, std::size_t images) {
  train::BatchPlan batches(count, std::vector<std::uint32_t>(images));
  std::uint32_t next = 0;
  for (auto& batch : batches)
    for (std::uint32_t& image : batch) image = next++;
  return batches;
}

EagerLosses make_eager_step(Ops& ops, const std::string& model, std::int64_t batch, Precision precision) {
  const bool bf16 = precision == Precision::bf16;
  const auto images = static_cast<std::size_t>(batch);
  train::LearnerTask task;
  task.batch_size = images;
  task.accumulation = 2;
  task.loader.augmentation = {4, true, 9};
  task.options.model = model;
  task.options.precision = precision;
  task.options.optimizer.kind = bf16 ? "adamw" : "sgd";
  task.options.optimizer.weight_decay = 5e-4;
  task.options.label_smoothing = 0.1;
  task.options.reducer.max_norm = 1;
  task.options.ema_decay = 0.9;
  task.options.sync_batch_norm = bf16;
  const data::ImageData data = {random_images(2 * images), random_images(images), ""};
  train::Learner learner(task, data, nullptr, &ops);
  learner.begin_epoch(some_batches(2, images), 0);
  EagerLosses losses;
  // The first step of a size is not recorded.
  losses.trained = learner.step({2, 0.01F, 2 * images, {}}).loss / static_cast<double>(2 * images);
  learner.begin_evaluation(some_batches(1, images));
  losses.tested = learner.score().loss / static_cast<double>(images);
  learner.end_evaluation();
  return losses;
}

}  // namespace muster::nn::gpu
