// SPDX-License-Identifier: Apache-2.0
// Linear layers, layer norm, attention and element-wise layers of a device, whose bodies a loop runs on the
// host, against their definitions in double, and their gradients against differences of those. Of widths that
// are multiples of eight, and others.
#include "tests/support/catch.hpp"
#include "tests/unit/worker_sdk/nn/gpu/row_device.hpp"

#include <functional>
#include <numeric>

namespace muster::nn::gpu {
namespace {

using test::Doubles;
using test::doubles;
using test::random_map;
using test::relative_error;
using test::rounding;

double dot(const Doubles& a, const Doubles& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// The gradient of `value` at `place`, by differences.
Doubles slopes(Doubles place, const std::function<double(const Doubles&)>& value) {
  constexpr double kStep = 1e-5;
  Doubles result;
  for (double& element : place) {
    const double saved = element;
    element = saved + kStep;
    const double high = value(place);
    element = saved - kStep;
    const double low = value(place);
    element = saved;
    result.push_back((high - low) / (2 * kStep));
  }
  return result;
}

/// a is m x k, b is k x n.
Doubles product(const Doubles& a, const Doubles& b, std::size_t m, std::size_t k, std::size_t n) {
  Doubles result(m * n);
  for (std::size_t r = 0; r < m; ++r)
    for (std::size_t i = 0; i < k; ++i)
      for (std::size_t c = 0; c < n; ++c) result[r * n + c] += a[r * k + i] * b[i * n + c];
  return result;
}

Doubles transposed(const Doubles& a, std::size_t rows, std::size_t columns) {
  Doubles result;
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t r = 0; r < rows; ++r) result.push_back(a[r * columns + c]);
  return result;
}

template <typename T>
Doubles rounded(const std::vector<float>& values) {
  Doubles result;
  for (const float value : values) result.push_back(static_cast<double>(to_float(from_float<T>(value))));
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("a linear layer of any width multiplies and adds its bias", "[gpu]", float, Bf16) {
  const auto [in, out, bias] =
      GENERATE(table<std::int64_t, std::int64_t, bool>({{24, 40, true}, {13, 7, true}, {1, 1, false}}));
  CAPTURE(in, out);
  const std::int64_t rows = 21;
  Device<TestType> device;
  Parameter weight(in * out, 1);
  Parameter shift(out, 2);
  Linear<TestType> layer(device.room, in, out, bias);
  layer.bind(weight.slot(), shift.slot());
  layer.weights_changed();
  auto x = random_map<TestType>(at(rows * in), 3);
  const auto dy = random_map<TestType>(at(rows * out), 4);
  std::vector<TestType> y(at(rows * out));
  layer.forward(x.data(), rows, y.data());
  const Doubles xs = doubles(x);
  const Doubles dys = doubles(dy);
  const Doubles weights = rounded<TestType>(weight.values);
  Doubles wanted = product(xs, transposed(weights, at(out), at(in)), at(rows), at(in), at(out));
  for (std::size_t i = 0; bias && i < wanted.size(); ++i)
    wanted[i] += static_cast<double>(shift.values[i % at(out)]);
  CHECK(relative_error(wanted, y) < bound<TestType>());
  layer.backward(x.data(), dy.data(), rows, nullptr);
  CHECK(doubles(x) == xs);
  layer.backward(x.data(), dy.data(), rows, x.data());
  CHECK(relative_error(product(transposed(dys, at(rows), at(out)), xs, at(out), at(rows), at(in)),
                       weight.gradients) < 1e-5);
  CHECK(relative_error(product(dys, weights, at(rows), at(out), at(in)), x) < bound<TestType>());
  Doubles sums(at(out));
  for (std::size_t i = 0; i < dys.size(); ++i) sums[i % at(out)] += dys[i];
  if (bias) CHECK(relative_error(sums, shift.gradients) < 1e-5);
  if (!bias) CHECK(shift.gradients == std::vector<float>(at(out), 1e30F));
}

TEMPLATE_TEST_CASE("layer norm and its gradients are those of the formula", "[gpu]", float, Bf16) {
  // The last ones are of several blocks, and of more columns than partial sums have room for.
  const auto [rows, width] =
      GENERATE(table<std::int64_t, std::int64_t>({{5, 24}, {9, 13}, {3, 1}, {2, 300}}));
  CAPTURE(rows, width);
  Device<TestType> device;
  Parameter scale(width, 1, 0.5F, 1);
  Parameter shift(width, 2);
  LayerNorm<TestType> layer(device.room, 2, width);
  layer.bind(scale.slot(), shift.slot());
  // Far from zero, where sums of squares around zero would lose the variance.
  const auto x = random_map<TestType>(at(rows * width), 3, 1, 20);
  const auto dy = random_map<TestType>(at(rows * width), 4);
  std::vector<TestType> y(x.size());
  layer.forward(x.data(), rows, y.data());
  const auto columns = at(width);
  const auto norm = [&](const Doubles& values, const Doubles& by, const Doubles& plus) {
    Doubles result;
    for (std::size_t r = 0; r < values.size() / columns; ++r) {
      double mean = 0;
      double variance = 0;
      for (std::size_t c = 0; c < columns; ++c) mean += values[r * columns + c] / static_cast<double>(width);
      for (std::size_t c = 0; c < columns; ++c)
        variance += std::pow(values[r * columns + c] - mean, 2) / static_cast<double>(width);
      for (std::size_t c = 0; c < columns; ++c)
        result.push_back((values[r * columns + c] - mean) / std::sqrt(variance + 1e-5) * by[c] + plus[c]);
    }
    return result;
  };
  const Doubles xs = doubles(x);
  const Doubles bys = doubles(scale.values);
  const Doubles adds = doubles(shift.values);
  const Doubles dys = doubles(dy);
  CHECK(relative_error(norm(xs, bys, adds), y) < bound<TestType>());
  std::vector<TestType> dx = x;
  if (width == 24) {
    dx = dy;
    layer.backward(x.data(), dx.data(), rows, dx.data());
  } else {
    layer.backward(dx.data(), dy.data(), rows, dx.data());
  }
  const auto loss = [&](const Doubles& values, const Doubles& by, const Doubles& plus) {
    return dot(norm(values, by, plus), dys);
  };
  // Of one element the gradient is zero, and differences of it are noise.
  if (width > 1)
    CHECK(relative_error(slopes(xs, [&](const Doubles& v) { return loss(v, bys, adds); }), dx) <
          5e-5 + bound<TestType>());
  CHECK(relative_error(slopes(bys, [&](const Doubles& v) { return loss(xs, v, adds); }), scale.gradients) <
        5e-5);
  CHECK(relative_error(slopes(adds, [&](const Doubles& v) { return loss(xs, bys, v); }), shift.gradients) <
        5e-5);
}

TEMPLATE_TEST_CASE("attention and its gradient are those of the formula, in place too", "[gpu]", float,
                   Bf16) {
  const auto [tokens, width, heads] =
      GENERATE(table<std::int64_t, std::int64_t, std::int64_t>({{8, 16, 2}, {5, 6, 3}, {1, 4, 1}}));
  CAPTURE(tokens, width, heads);
  const std::int64_t batch = 2;
  const auto own = at(width / heads);
  Device<TestType> device;
  Attention<TestType> layer(device.room, tokens, width, heads);
  const auto qkv = random_map<TestType>(at(batch * tokens * 3 * width), 1, 2);
  const auto dy = random_map<TestType>(at(batch * tokens * width), 2);
  std::vector<TestType> y(dy.size());
  const auto attend = [&](const Doubles& rows) {
    Doubles result(dy.size());
    const std::size_t w = at(width);
    for (std::size_t image = 0; image < 2; ++image)
      for (std::size_t head = 0; head < at(heads); ++head)
        for (std::size_t q = 0; q < at(tokens); ++q) {
          const auto element = [&](std::size_t token, std::size_t part, std::size_t i) {
            return rows[((image * at(tokens) + token) * 3 + part) * w + head * own + i];
          };
          Doubles shares;
          for (std::size_t k = 0; k < at(tokens); ++k) {
            double score = 0;
            for (std::size_t i = 0; i < own; ++i) score += element(q, 0, i) * element(k, 1, i);
            shares.push_back(std::exp(score / std::sqrt(static_cast<double>(own))));
          }
          const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
          for (std::size_t k = 0; k < at(tokens); ++k)
            for (std::size_t i = 0; i < own; ++i)
              result[(image * at(tokens) + q) * w + head * own + i] += shares[k] / sum * element(k, 2, i);
        }
    return result;
  };
  const Doubles rows = doubles(qkv);
  layer.forward(qkv.data(), batch, y.data());
  // Scores, probabilities and results are rounded.
  CHECK(relative_error(attend(rows), y) < bound<TestType>(6));
  const Doubles wanted = slopes(rows, [&](const Doubles& v) { return dot(attend(v), doubles(dy)); });
  std::vector<TestType> apart(qkv.size());
  layer.backward(qkv.data(), dy.data(), batch, apart.data());
  CHECK(relative_error(wanted, apart) < bound<TestType>(10));
  std::vector<TestType> in_place = qkv;
  layer.backward(in_place.data(), dy.data(), batch, in_place.data());
  CHECK(doubles(in_place) == doubles(apart));
}

TEMPLATE_TEST_CASE("ReLU, GELU and sums are those of each element", "[gpu]", float, Bf16) {
  const std::int64_t width = GENERATE(16, 11);
  const std::int64_t rows = 3;
  Device<TestType> device;
  const auto x = random_map<TestType>(at(rows * width), 1, 4);
  const auto dy = random_map<TestType>(x.size(), 2);
  const Doubles xs = doubles(x);
  const Doubles dys = doubles(dy);
  const auto each = [](const Doubles& values, const std::function<double(double)>& function) {
    Doubles result;
    for (const double value : values) result.push_back(function(value));
    return result;
  };
  const auto gelu = [](double v) { return 0.5 * v * std::erfc(-v / std::sqrt(2.0)); };
  std::vector<TestType> y(x.size());
  const RowMap<TestType, GeluMap> smooth(device.room, 1, width);
  smooth.forward(x.data(), rows, y.data());
  CHECK(relative_error(each(xs, gelu), y) < 1e-6 + rounding<TestType>());
  std::vector<TestType> dx = x;
  smooth.backward(dx.data(), dy.data(), rows, dx.data());
  Doubles wanted;
  for (std::size_t i = 0; i < xs.size(); ++i)
    wanted.push_back(dys[i] * (gelu(xs[i] + 1e-5) - gelu(xs[i] - 1e-5)) / 2e-5);
  CHECK(relative_error(wanted, dx) < 1e-6 + rounding<TestType>());

  const RowMap<TestType, ReluMap> relu(device.room, 1, width);
  std::vector<TestType> in_place = x;
  relu.forward(in_place.data(), rows, in_place.data());
  CHECK(doubles(in_place) == each(xs, [](double v) { return std::max(v, 0.0); }));
  relu.backward(in_place.data(), dy.data(), rows, in_place.data());
  for (std::size_t i = 0; i < xs.size(); ++i)
    REQUIRE(static_cast<double>(to_float(in_place[i])) == (xs[i] > 0 ? dys[i] : 0));
  in_place[1] = from_float<TestType>(std::nanf(""));
  relu.forward(in_place.data(), rows, in_place.data());
  CHECK(std::isnan(to_float(in_place[1])));

  const Sum<TestType> sum(device.room, 1, width);
  in_place = x;
  sum.run(in_place.data(), dy.data(), rows, in_place.data());
  for (std::size_t i = 0; i < xs.size(); ++i) wanted[i] = xs[i] + dys[i];
  CHECK(relative_error(wanted, in_place) < 1e-6 + rounding<TestType>());
}

}  // namespace muster::nn::gpu
