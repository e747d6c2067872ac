// SPDX-License-Identifier: Apache-2.0
// Kernels between data, weights, loss and optimizer, against the CPU's own code and formulas in double.
#include "tests/support/catch.hpp"
#include "tests/unit/worker_sdk/nn/gpu/values.hpp"
#include "worker_sdk/nn/data/images.hpp"
#include "worker_sdk/nn/gpu/kernels/gather.hpp"
#include "worker_sdk/nn/gpu/kernels/loss.hpp"
#include "worker_sdk/nn/gpu/kernels/optimizer.hpp"
#include "worker_sdk/nn/gpu/kernels/pool.hpp"
#include "worker_sdk/nn/gpu/kernels/weights.hpp"
#include "worker_sdk/nn/loss.hpp"
#include "worker_sdk/nn/network.hpp"
#include "worker_sdk/nn/optim/optimizer.hpp"

#include <limits>

namespace muster::nn::gpu {
namespace {

using test::Doubles;
using test::doubles;
using test::random_map;
using test::relative_error;
using test::rounding;

data::Images random_images(std::size_t count) {
  data::Images images;
  RandomStream random(3, 3);
  for (std::size_t i = 0; i < count * data::kImageBytes; ++i)
    images.pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
  for (std::size_t i = 0; i < count; ++i) images.labels.push_back(static_cast<std::uint8_t>(i % 10));
  return images;
}

PixelScaling scaling_of(const data::Normalization& n) {
  PixelScaling scaling{};
  for (int c = 0; c < kColours; ++c) {
    scaling.scale[c] = 1.0F / (255.0F * n.deviation[c]);
    scaling.shift[c] = -n.mean[c] / n.deviation[c];
  }
  return scaling;
}

}  // namespace

TEST_CASE("gathered images are those of the loader threads, widened with zeros", "[gpu]") {
  const data::Images images = random_images(40);
  const std::vector<std::uint32_t> order = {9, 39, 1, 0, 17, 17, 3, 22};
  const data::Augmentation augmentation = {4, true, 77};
  const bool augment = GENERATE(true, false);
  const std::vector<std::uint32_t> batch(order.begin() + 2, order.end());
  std::vector<float> wanted(batch.size() * data::kImageBytes);
  std::vector<std::uint8_t> wanted_labels(batch.size());
  data::gather(images, batch, data::kCifar10Normalization, augment ? augmentation : data::Augmentation{}, 5,
               wanted.data(), wanted_labels.data());
  StepValues values;
  values.position = 2;
  values.epoch = 5;
  values.augment = augment ? 1 : 0;
  std::vector<float> got(batch.size() * 32 * 32 * 8, 9.0F);
  std::vector<std::int32_t> labels(batch.size());
  run_on_host(Gather<float>{
      static_cast<std::int64_t>(batch.size()), images.pixels.data(), images.labels.data(), order.data(),
      &values, scaling_of(data::kCifar10Normalization), augmentation, got.data(), labels.data()});
  CHECK(labels == std::vector<std::int32_t>(wanted_labels.begin(), wanted_labels.end()));
  std::vector<float> widened(got.size(), 9.0F);
  test::widen_images(wanted, widened.data());
  CHECK(widened == got);
}

TEMPLATE_TEST_CASE("max pooling and its gradient follow their definition", "[gpu]", float, Bf16) {
  const PoolShape shape =
      GENERATE(PoolShape{16, 8, 3, 2, 1}, PoolShape{8, 6, 2, 2, 0}, PoolShape{8, 7, 3, 2, 1});
  const int out = shape.out_side();
  const auto size = [](int i) { return static_cast<std::size_t>(i); };
  const auto x = random_map<TestType>(size(3 * shape.side * shape.side * shape.channels), 20);
  const auto dy = random_map<TestType>(size(3 * out * out * shape.channels), 21);
  const auto dy2 = random_map<TestType>(dy.size(), 22);
  std::vector<TestType> y(dy.size());
  std::vector<std::uint8_t> winners(dy.size());
  std::vector<TestType> dx(x.size());
  run_on_host(MaxPool<TestType>{shape, 3, x.data(), y.data(), winners.data()});
  run_on_host(MaxPoolBackward<TestType>{shape, 3, dy.data(), dy2.data(), winners.data(), dx.data()});
  Doubles wanted(dy.size());
  Doubles gradient(x.size());
  for (int n = 0; n < 3; ++n)
    for (int r = 0; r < out; ++r)
      for (int c = 0; c < out; ++c)
        for (int k = 0; k < shape.channels; ++k) {
          double best = -std::numeric_limits<double>::infinity();
          std::size_t winner = 0;
          for (int i = 0; i < shape.kernel; ++i)
            for (int j = 0; j < shape.kernel; ++j) {
              const int row = r * shape.stride - shape.padding + i;
              const int column = c * shape.stride - shape.padding + j;
              if (row < 0 || column < 0 || row >= shape.side || column >= shape.side) continue;
              const std::size_t from =
                  size(((n * shape.side + row) * shape.side + column) * shape.channels + k);
              if (static_cast<double>(to_float(x[from])) <= best) continue;
              best = static_cast<double>(to_float(x[from]));
              winner = from;
            }
          const std::size_t to = size(((n * out + r) * out + c) * shape.channels + k);
          wanted[to] = best;
          gradient[winner] += static_cast<double>(to_float(dy[to])) + static_cast<double>(to_float(dy2[to]));
        }
  CHECK(relative_error(wanted, y) == 0);
  CHECK(relative_error(gradient, dx) < 1e-6 + rounding<TestType>());
}

TEMPLATE_TEST_CASE("average pooling and its gradient are adjoint", "[gpu]", float, Bf16) {
  const auto x = random_map<TestType>(5 * 16 * 24, 23);
  const auto g = random_map<TestType>(5 * 24, 24);
  std::vector<TestType> y(g.size());
  std::vector<TestType> dx(x.size());
  run_on_host(AveragePool<TestType>{5, 16, 24, x.data(), y.data()});
  run_on_host(AveragePoolBackward<TestType>{5, 16, 24, g.data(), dx.data()});
  Doubles wanted(y.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    wanted[i / (16 * 24) * 24 + i % 24] += static_cast<double>(to_float(x[i])) / 16;
  CHECK(relative_error(wanted, y) < 1e-6 + rounding<TestType>());
  double left = 0;
  double right = 0;
  for (std::size_t i = 0; i < y.size(); ++i) left += wanted[i] * doubles(g)[i];
  for (std::size_t i = 0; i < x.size(); ++i)
    right += static_cast<double>(to_float(x[i])) * static_cast<double>(to_float(dx[i]));
  CHECK(left == Approx(right).margin(0.01));
}

TEST_CASE("mean squared errors and their gradient are the CPU's", "[gpu]") {
  constexpr std::size_t kImages = 300;
  constexpr std::size_t kWidth = 7;
  const auto results = random_map<float>(kImages * kWidth, 27);
  const auto targets = random_map<float>(kImages * kWidth, 28);
  std::vector<float> losses(kImages), hits(kImages, 1.0F), gradient(kImages * kWidth),
      wanted(kImages * kWidth);
  run_on_host(SquaredError{kImages, kWidth, results.data(), targets.data(), losses.data(), hits.data(),
                           gradient.data()});
  const BatchScore cpu = mean_squared_error(results.data(), targets.data(), kImages, kWidth, wanted.data());
  double loss = 0;
  for (const float one : losses) loss += static_cast<double>(one);
  CHECK(loss == Approx(cpu.loss).epsilon(1e-6));
  CHECK(hits == std::vector<float>(kImages));
  CHECK(relative_error(doubles(wanted), gradient) < 1e-6);
}

TEST_CASE("loss, hits and gradient are the CPU's, and smoothing is PyTorch's", "[gpu]") {
  const std::size_t images = 300;
  const auto logits = random_map<float>(images * 10, 25, 8);
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < images; ++i) labels.push_back(static_cast<std::int32_t>(i * 7 % 10));
  const float smoothing = GENERATE(0.0F, 0.1F);
  std::vector<float> losses(images), hits(images), gradient(images * 10);
  run_on_host(CrossEntropy{300, 10, smoothing, logits.data(), labels.data(), losses.data(), hits.data(),
                           gradient.data()});
  std::vector<double> score = {1, 2, 3};
  run_on_host(AddScore{300, losses.data(), hits.data(), score.data()});
  std::vector<float> plain(images * 10);
  const BatchScore cpu = softmax_cross_entropy(logits.data(), labels.data(), images, 10, plain.data());
  const double s = static_cast<double>(smoothing);
  Doubles wanted;
  double loss = 0;
  for (std::size_t n = 0; n < images; ++n) {
    double sum = 0;
    for (std::size_t c = 0; c < 10; ++c) sum += std::exp(static_cast<double>(logits[n * 10 + c]));
    for (std::size_t c = 0; c < 10; ++c) {
      const double target = (c == static_cast<std::size_t>(labels[n]) ? 1 - s : 0) + s / 10;
      const double x = static_cast<double>(logits[n * 10 + c]);
      loss -= target * (x - std::log(sum));
      wanted.push_back(std::exp(x) / sum - target);
    }
  }
  CHECK(score[0] == Approx(1 + loss));
  CHECK(score[1] == 2 + static_cast<double>(cpu.correct));
  CHECK(score[2] == 303);
  CHECK(relative_error(wanted, gradient) < 1e-6);
  if (smoothing == 0) CHECK(score[0] == Approx(1 + cpu.loss));
}

TEST_CASE("logits lose their padding and get their bias, and gradients are padded", "[gpu]") {
  const auto products = random_map<float>(5 * 16, 26);
  const auto bias = random_map<float>(10, 27);
  std::vector<float> logits(50);
  run_on_host(FinishLogits<float>{5, 10, 16, products.data(), bias.data(), logits.data()});
  std::vector<Bf16> padded(80, Bf16{1});
  run_on_host(PadGradient<Bf16>{5, 10, 16, logits.data(), padded.data()});
  for (std::size_t n = 0; n < 5; ++n)
    for (std::size_t c = 0; c < 16; ++c) {
      const float sum = c < 10 ? products[n * 16 + c] + bias[c] : 0;
      if (c < 10) CHECK(logits[n * 10 + c] == sum);
      CHECK(padded[n * 16 + c].bits == from_float<Bf16>(sum).bits);
    }
}

TEST_CASE("weights go to the convolutions' order and gradients come back", "[gpu]") {
  const WeightShape shape = {4, 3, 9, 8, 8};
  const auto weights = random_map<float>(4 * 3 * 9, 28);
  std::vector<float> packed(8 * 8 * 9, 9.0F);
  run_on_host(PackWeights<float>{shape, weights.data(), packed.data()});
  for (std::size_t o = 0; o < 8; ++o)
    for (std::size_t p = 0; p < 9; ++p)
      for (std::size_t c = 0; c < 8; ++c)
        CHECK(packed[(o * 9 + p) * 8 + c] == (o < 4 && c < 3 ? weights[(o * 3 + c) * 9 + p] : 0));
  std::vector<float> back(weights.size());
  run_on_host(UnpackGradient<float>{shape, packed.data(), back.data()});
  CHECK(back == weights);
}

TEST_CASE("optimizers step as the CPU's do, decay where it applies and nothing outside the range", "[gpu]") {
  const std::size_t count = 96;
  optim::OptimizerOptions options;
  options.kind = GENERATE(as<std::string>(), "sgd", "adam", "adamw");
  options.nesterov = options.kind == "sgd" && GENERATE(true, false);
  options.weight_decay = 0.01;
  auto values = random_map<float>(count, 29);
  auto expected = values;
  std::vector<float> gradients = random_map<float>(count, 30, 100);
  const auto cpu =
      optim::make_optimizer(options, {expected.data(), gradients.data(), count, {{0, 32}, {64, 96}}});
  std::vector<std::uint8_t> decays = {1, 1, 0, 0, 1, 1};
  std::vector<float> first(count), second(count);
  const float samples = 64;
  for (int t = 1; t <= 3; ++t) {
    cpu->begin_step();
    cpu->step(16, 80, 0.1F, 1 / samples);
    StepValues step;
    step.rate = 0.1F;
    step.adam_step = static_cast<float>(0.1 / (1 - std::pow(options.beta1, t)));
    step.adam_root = static_cast<float>(std::sqrt(1 - std::pow(options.beta2, t)));
    const ArenaPart part = {16, 80, values.data(), gradients.data(), &samples, nullptr, decays.data(), &step};
    if (options.kind == "sgd")
      run_on_host(SgdStep{part, first.data(), 0.9F, 0.01F, options.nesterov});
    else
      run_on_host(AdamStep{part, first.data(), second.data(), 0.9F, 0.1F, 0.999F, 0.001F, 1e-8F, 0.01F,
                           options.kind == "adamw"});
  }
  const Doubles wanted(expected.begin(), expected.end());
  CHECK(relative_error(wanted, values) < 1e-5);
  CHECK(values[15] == expected[15]);
  CHECK(values[80] == expected[80]);

  const float none = 0;
  const auto before = values;
  StepValues step;
  step.rate = 1;
  run_on_host(SgdStep{{0, 96, values.data(), gradients.data(), &none, nullptr, decays.data(), &step},
                      first.data(),
                      0.9F,
                      0.01F,
                      false});
  CHECK(values == before);
}

}  // namespace muster::nn::gpu
