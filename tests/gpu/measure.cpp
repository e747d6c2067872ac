// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/measure.hpp"

#include "rendezvous/base/philox.hpp"
#include "tests/unit/worker_sdk/trainer/nn/model_tensors.hpp"
#include "worker_sdk/trainer/nn/gpu/cuda/cuda_ops.hpp"

#include <algorithm>
#include <chrono>
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

/// The median of five rounds of some two seconds of work at 65,000 images a second.
double images_per_second(const SessionOptions& options, bool autotune) {
  constexpr std::size_t kImages = 50'000;
  CudaOps ops(0, autotune);
  const data::Images train = random_images(kImages);
  Session session(options, ops, train, random_images(10), {});
  start(session, 1);
  std::vector<std::uint32_t> order(kImages);
  std::iota(order.begin(), order.end(), 0U);
  session.begin_epoch(order, 0);
  const auto batch = static_cast<std::size_t>(options.batch);
  const std::size_t steps = kImages / batch;
  for (std::size_t i = 0; i < std::min<std::size_t>(steps, 10); ++i) session.step(i * batch, batch, 0.01F);
  ops.synchronize();
  std::vector<double> rates;
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < 2 * steps; ++i) session.step(i % steps * batch, batch, 0.01F);
    ops.synchronize();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    rates.push_back(static_cast<double>(2 * steps * batch) / time.count());
  }
  std::nth_element(rates.begin(), rates.begin() + 2, rates.end());
  return rates[2];
}

}  // namespace muster::nn::gpu
