// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/random_start.hpp"

#include "rendezvous/base/philox.hpp"
#include "tests/unit/worker_sdk/trainer/nn/model_tensors.hpp"

#include <array>
#include <numeric>
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

void start(Session& session, std::uint64_t seed) {
  const test::ModelTensors first(session.spec(), seed);
  for (std::size_t i = 0; i < first.values.size(); ++i) session.write_parameter(i, first.values[i].data());
  for (std::size_t i = 0; i < first.buffers.size(); ++i) session.write_buffer(i, first.buffers[i].data());
}

void begin_epoch(Session& session, std::size_t images) {
  std::vector<std::uint32_t> order(images);
  std::iota(order.begin(), order.end(), 0U);
  session.begin_epoch(order, 0);
}

EagerLosses make_eager_step(Ops& ops, const std::string& model, std::int64_t batch, Precision precision) {
  const bool bf16 = precision == Precision::bf16;
  SessionOptions options;
  options.model = model;
  options.precision = precision;
  options.batch = batch;
  options.augmentation = {4, true, 9};
  options.optimizer.kind = bf16 ? "adamw" : "sgd";
  options.optimizer.weight_decay = 5e-4;
  options.label_smoothing = 0.1F;
  options.micro_batches = 2;
  options.reducer.max_norm = 1;
  options.average_decay = 0.9;
  if (bf16) options.sum_statistics = [](double*, std::size_t, void*) {};
  options.graphs = false;
  const auto images = static_cast<std::size_t>(batch);
  const std::array<std::size_t, 2> parts = {images, images};
  Session session(options, ops, random_images(2 * images), random_images(images), {});
  start(session, 1);
  begin_epoch(session, 2 * images);
  session.step(0, parts, 0.01F);
  EagerLosses losses;
  losses.trained = session.take_score().loss / static_cast<double>(2 * images);
  session.swap_average();
  losses.tested = session.evaluate(0, images).loss / static_cast<double>(images);
  return losses;
}

}  // namespace muster::nn::gpu
