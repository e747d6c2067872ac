// SPDX-License-Identifier: Apache-2.0
// A network of one's own, on samples of one's own, on all ranks: own_network [cpu|cuda] [FILE]
#include <muster/muster.hpp>
#include <muster/nn.hpp>

#include <cstdio>
#include <exception>
#include <random>
#include <string>

namespace nn = muster::nn;
constexpr int kSide = 16, kPixels = kSide * kSide, kSteps = 40, kBatch = 64;  // of all ranks

/// Draws sample `number`: noise with a bar in it that lies (0) or stands (1).
std::int32_t draw(std::int64_t number, std::span<float> image) {
  std::minstd_rand random(static_cast<unsigned>(number) + 1);
  for (float& pixel : image) pixel = static_cast<float>(random() % 1000) / 1000 - 0.5F;
  const auto place = random() / 7 % kSide;
  const bool stands = random() / 7 % 2 == 1;
  for (unsigned i = 0; i < kSide; ++i) image[stands ? i * kSide + place : place * kSide + i] += 1;
  return stands ? 1 : 0;
}

nn::Network network() {
  const auto convolution = nn::convolution(16, {.kernel = 3, .bias = false});
  const nn::Sequential block = {convolution, nn::batch_norm(), nn::relu(), convolution, nn::batch_norm()};
  return {nn::images(1, kSide),
          {convolution, nn::batch_norm(), nn::relu(), nn::residual(block), nn::relu(), nn::average_pool(),
           nn::dropout(0.1), nn::linear(2)}};
}

void train(const std::string& device, const char* file) {
  muster::World world;
  nn::LearnerOptions options;
  options.device = device == "cuda" ? nn::Device::cuda : nn::Device::cpu;
  options.optimizer = {.kind = nn::OptimizerKind::adamw, .weight_decay = 0.01};
  const auto fill = [](const nn::Batch& batch) {
    const std::int64_t first = batch.training ? batch.steps * kBatch : 1'000'000;
    for (std::size_t i = 0; i < batch.numbers.size(); ++i)
      batch.labels[i] = draw(first + batch.numbers[i], batch.inputs.subspan(i * kPixels, kPixels));
  };
  nn::Learner learner(world.group(), network(), fill, options);
  const nn::Schedule schedule = {.kind = nn::ScheduleKind::cosine, .rate = 0.02, .total_steps = kSteps};
  for (int step = 0; step < kSteps; ++step) learner.step(kBatch, schedule.at(step));
  const nn::Score score = learner.evaluate(200);
  const auto hash = learner.check_parameters();  // the same bits on all ranks
  if (file != nullptr) learner.save(file);
  if (world.rank() == 0)
    std::printf("%d ranks: loss %.4f, %.1f %% right, hash %016llx\n", world.size(), score.loss,
                100 * score.accuracy, static_cast<unsigned long long>(hash));
  world.finalize();
}

int main(int argc, char** argv) {
  try {
    train(argc > 1 ? argv[1] : "cpu", argc > 2 ? argv[2] : nullptr);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "own_network: %s\n", error.what()), 1;
  }
}
