// SPDX-License-Identifier: Apache-2.0
// Pooling against its definition; backward by the adjoint identity and by slopes.
#include "worker_sdk/nn/cpu/pool.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/maps.hpp"

#include <limits>
#include <vector>

using namespace muster::test;
using namespace muster::nn::cpu;
using muster::nn::Mode;
using muster::nn::PooledTo;

namespace {

constexpr std::int64_t kChannels = 32;
constexpr std::int64_t kBatch = 2;

/// Maximum of each channel over windows at stride 2, the first at `offset`; `bias` (where not null) added,
/// and not below 0.
Doubles reference(const std::vector<float>& x, std::int64_t side, int window, int offset, const float* bias) {
  const std::int64_t out = (side - 1) / 2 + 1;
  Doubles result;
  for (std::int64_t n = 0; n < kBatch; ++n)
    for (std::int64_t y = 0; y < out; ++y)
      for (std::int64_t z = 0; z < out; ++z)
        for (std::int64_t c = 0; c < kChannels; ++c) {
          double best = -std::numeric_limits<double>::infinity();
          for (int k = 0; k < window * window; ++k) {
            const std::int64_t r = 2 * y + offset + k / window;
            const std::int64_t s = 2 * z + offset + k % window;
            if (r < 0 || s < 0 || r >= side || s >= side) continue;
            best =
                std::max(best, static_cast<double>(
                                   x[static_cast<std::size_t>(((n * side + r) * side + s) * kChannels + c)]));
          }
          result.push_back(bias == nullptr ? best : std::max(0.0, best + static_cast<double>(bias[c])));
        }
  return result;
}

template <typename Loss>
void check_slopes(const std::vector<float>& gradient, std::vector<float>& x, const Loss& loss, double noise) {
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < 40; ++k) {
    const std::size_t index = (k * x.size() / 40 + k % 16) % x.size();
    if (std::abs(slope(x, index, loss) - static_cast<double>(gradient[index])) > noise) ++wrong;
  }
  CHECK(wrong <= 2);  // two values of a window next to each other have a kink between them
}

}  // namespace

TEST_CASE("the stem's maximum and its gradient follow the definition") {
  for (const auto& format : formats())
    for (const std::int64_t side : {1, 5, 8}) {
      CAPTURE(format.blocked, format.bf16, side);
      Room room({}, format);
      const MaxPool pool(room, {kChannels, side});
      room.begin(kBatch);
      const MapShape shape = {kChannels, side, format};
      const MapShape& pooled = pool.result();
      std::vector<float> x = rounded(random_floats(shape.elements(kBatch), 1), format);
      const std::vector<float> pull = rounded(random_floats(pooled.elements(kBatch), 2), format);
      const TestMap x_map(shape, kBatch, x), y(pooled, kBatch), dy(pooled, kBatch, pull), dx(shape, kBatch);
      pool.forward(x_map.data(), kBatch, Mode::train, y.data());
      CHECK(distance(reference(x, side, 3, -1, nullptr), y.nhwc()) == 0);
      pool.backward(dy.data(), dy.data(), kBatch, dx.data());
      const auto loss = [&] { return 2 * dot(reference(x, side, 3, -1, nullptr), pull); };
      CHECK(std::abs(dot(dx.nhwc(), x) - loss()) < 1e-3 + 100 * rounding(format));
      check_slopes(dx.nhwc(), x, loss, 1e-4 + 8 * rounding(format));
    }
}

TEST_CASE("maximum, bias and ReLU in one follow the definition") {
  for (const auto& format : formats())
    for (const PooledTo to : {PooledTo::map, PooledTo::features}) {
      CAPTURE(format.blocked, format.bf16, to == PooledTo::map);
      Room room({}, format);
      BiasPool pool(room, {kChannels, 6}, to);
      room.begin(kBatch);
      const MapShape shape = {kChannels, 6, format};
      const MapShape& pooled = pool.result();
      std::vector<float> x = rounded(random_floats(shape.elements(kBatch), 1), format);
      std::vector<float> bias = random_floats(kChannels, 3), bias_gradient(kChannels);
      for (float& value : bias) value -= 0.5F;
      const std::vector<float> pull = rounded(random_floats(pooled.elements(kBatch), 2), format);
      const TestMap x_map(shape, kBatch, x), y(pooled, kBatch), dy(pooled, kBatch, pull), dx(shape, kBatch);
      pool.bind({bias.data(), bias_gradient.data()});
      pool.forward(x_map.data(), kBatch, y.data());
      CHECK(distance(reference(x, 6, 2, 0, bias.data()), y.nhwc()) <= 2 * rounding(pooled.format));
      pool.backward(dy.data(), kBatch, dx.data());
      const auto loss = [&] { return dot(reference(x, 6, 2, 0, bias.data()), pull); };
      check_slopes(dx.nhwc(), x, loss, 1e-4);
      CHECK(std::abs(dot(bias_gradient, bias) + dot(dx.nhwc(), x) - loss()) <
            1e-3);  // linear where it is not 0
      check_slopes(bias_gradient, bias, loss, 1e-4);
    }
}

TEST_CASE("the mean over a map and its gradient are each other's adjoint") {
  for (const auto& format : formats()) {
    CAPTURE(format.blocked, format.bf16);
    const Room room({}, format);
    const AveragePool pool(room, {kChannels, 3});
    const MapShape shape = {kChannels, 3, format};
    const std::vector<float> x = rounded(random_floats(shape.elements(kBatch), 1), format);
    const std::vector<float> pull = random_floats(kBatch * kChannels, 2);
    const TestMap x_map(shape, kBatch, x), dx(shape, kBatch);
    std::vector<float> means(pull.size());
    pool.forward(x_map.data(), kBatch, means.data());
    Doubles wanted(means.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      wanted[i / (9 * kChannels) * kChannels + i % kChannels] += static_cast<double>(x[i]) / 9;
    CHECK(distance(wanted, means) < 1e-6);
    pool.backward(pull.data(), kBatch, dx.data());
    CHECK(std::abs(dot(dx.nhwc(), x) - dot(means, pull)) < 1e-4 + 10 * rounding(format));
  }
}

TEST_CASE("what is not a number is not lost in a maximum or a ReLU") {
  for (const auto& format : formats()) {
    Room room({}, format);
    const MaxPool pool(room, {kChannels, 4});
    BiasPool with_bias(room, {kChannels, 4}, PooledTo::map);
    room.begin(kBatch);
    const MapShape shape = {kChannels, 4, format};
    std::vector<float> x = rounded(random_floats(shape.elements(kBatch), 1), format);
    x[5] = std::numeric_limits<float>::quiet_NaN();
    const TestMap x_map(shape, kBatch, x), y(pool.result(), kBatch);
    std::vector<float> bias(kChannels);
    with_bias.bind({bias.data(), nullptr});
    pool.forward(x_map.data(), kBatch, Mode::train, y.data());
    CHECK(std::isnan(y.nhwc()[5]));
    with_bias.forward(x_map.data(), kBatch, y.data());
    CHECK(std::isnan(y.nhwc()[5]));
  }
}
