// SPDX-License-Identifier: Apache-2.0
// Batch norm with ReLU and residual sum against the definition in double precision; backward against slopes
// of the definition; statistics over several ranks against one rank with all images.
#include "worker_sdk/nn/cpu/batch_norm.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/maps.hpp"

#include <array>
#include <barrier>
#include <thread>
#include <vector>

namespace batch_norm_test {

using namespace muster::test;
using namespace muster::nn;
using cpu::BatchNorm;
using cpu::MapShape;

namespace {

constexpr std::size_t kChannels = 64;
constexpr std::int64_t kSide = 3;

/// The parameters of one batch norm and their gradients.
struct Tensors {
  explicit Tensors(std::uint64_t stream)
      : scale(random_floats(kChannels, stream)), shift(random_floats(kChannels, stream + 1)) {}

  void bind(BatchNorm& norm) {
    norm.bind({scale.data(), scale_gradient.data()}, {shift.data(), shift_gradient.data()}, mean.data(),
              variance.data());
  }

  std::vector<float> scale, shift;
  std::vector<float> scale_gradient = std::vector<float>(kChannels, 1e30F);
  std::vector<float> shift_gradient = std::vector<float>(kChannels, 1e30F);
  std::vector<float> mean = std::vector<float>(kChannels, 0.5F);
  std::vector<float> variance = std::vector<float>(kChannels, 2.0F);
};

/// norm(x) of nhwc maps by the statistics of the batch.
Doubles normalized(const std::vector<float>& x, const Tensors& t, Doubles* means = nullptr,
                   Doubles* variances = nullptr) {
  const double count = static_cast<double>(x.size() / kChannels);
  Doubles mean(kChannels), variance(kChannels), result;
  for (std::size_t i = 0; i < x.size(); ++i) mean[i % kChannels] += static_cast<double>(x[i]) / count;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - mean[i % kChannels];
    variance[i % kChannels] += d * d / count;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % kChannels;
    result.push_back((static_cast<double>(x[i]) - mean[c]) / std::sqrt(variance[c] + 1e-5) *
                         static_cast<double>(t.scale[c]) +
                     static_cast<double>(t.shift[c]));
  }
  if (means != nullptr) *means = mean;
  if (variances != nullptr) *variances = variance;
  return result;
}

Doubles relu_of_sum(const Doubles& a, const Doubles& b) {
  Doubles result;
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back(std::max(0.0, a[i] + b[i]));
  return result;
}

/// Numbers away from zero mean and unit deviation.
std::vector<float> random_maps(std::size_t count, std::uint64_t stream, const cpu::MapFormat& format) {
  std::vector<float> values = random_floats(count, stream);
  for (std::size_t i = 0; i < count; ++i) values[i] = 3 * values[i] + static_cast<float>(i % kChannels % 5);
  return rounded(std::move(values), format);
}

void check_gradient(const std::vector<float>& gradient, std::vector<float>& values, const auto& loss,
                    double noise) {
  std::size_t wrong = 0;
  constexpr std::size_t kChecked = 24;
  for (std::size_t k = 0; k < kChecked; ++k) {
    const std::size_t index = (k * 37 + 5) * values.size() / (kChecked * 37);
    const double wanted = slope(values, index, loss);
    if (std::abs(wanted - static_cast<double>(gradient[index])) > noise * (1 + std::abs(wanted))) ++wrong;
  }
  CHECK(wrong <= 1);  // a slope over the kink of a ReLU is none
}

/// The form of a residual block with a shortcut: relu(norm(x) + other_norm(z)).
void check_residual(const cpu::MapFormat& format, std::int64_t batch) {
  CAPTURE(format.blocked, format.bf16, batch);
  const MapShape shape = {kChannels, kSide, format};
  const std::size_t count = shape.elements(batch);
  std::vector<float> x = random_maps(count, 1, format);
  std::vector<float> z = random_maps(count, 2, format);
  const std::vector<float> pull = rounded(random_floats(count, 3), format);
  Tensors t(10), u(20);
  BatchNorm norm(shape, nullptr), other(shape, nullptr);
  t.bind(norm);
  u.bind(other);
  const TestMap x_map(shape, batch, x), z_map(shape, batch, z), y_map(shape, batch), dy(shape, batch, pull);
  std::vector<std::uint16_t> signs(count / 16);

  norm.measure(x_map.data(), batch, Mode::train);
  other.measure(z_map.data(), batch, Mode::train);
  norm.apply(x_map.data(), z_map.data(), &other, y_map.data(), signs.data(), batch);
  const double noise = 20 * rounding(format) + 1e-5;
  Doubles mean, variance;
  const Doubles wanted = relu_of_sum(normalized(x, t, &mean, &variance), normalized(z, u));
  CHECK(distance(wanted, y_map.nhwc()) < noise);
  const double elements = static_cast<double>(count / kChannels);
  for (std::size_t c = 0; c < kChannels; ++c) {
    CHECK(std::abs(static_cast<double>(t.mean[c]) - (0.45 + 0.1 * mean[c])) < 1e-5);
    CHECK(std::abs(static_cast<double>(t.variance[c]) -
                   (1.8 + 0.1 * variance[c] * elements / (elements - 1))) < 1e-4);
  }

  const TestMap sum(shape, batch), dx(shape, batch), dz(shape, batch);
  norm.backward_sums({x_map.data(), dy.data(), nullptr, signs.data()}, sum.data(), batch);
  norm.backward({x_map.data(), sum.data(), nullptr, nullptr}, dx.data(), batch);
  const cpu::BackwardArgs of_other = {z_map.data(), sum.data(), nullptr, nullptr};
  other.backward_sums(of_other, nullptr, batch);
  other.backward(of_other, dz.data(), batch);
  const auto loss = [&] { return dot(relu_of_sum(normalized(x, t), normalized(z, u)), pull); };
  const double close = 1e-3 + 8 * rounding(format);
  check_gradient(dx.nhwc(), x, loss, close);
  check_gradient(dz.nhwc(), z, loss, close);
  check_gradient(t.scale_gradient, t.scale, loss, close);
  check_gradient(t.shift_gradient, t.shift, loss, close);
  check_gradient(u.scale_gradient, u.scale, loss, close);
}

}  // namespace

TEST_CASE("batch norm with a residual sum follows the definition, forward and backward") {
  for (const auto& format : formats())
    for (const std::int64_t batch : {1, 5}) check_residual(format, batch);
}

TEST_CASE("two parts of a gradient are added before the ReLU") {
  for (const auto& format : formats()) {
    const MapShape shape = {kChannels, kSide, format};
    const std::size_t count = shape.elements(2);
    const std::vector<float> x = random_maps(count, 1, format);
    const std::vector<float> one = rounded(random_floats(count, 3), format);
    std::vector<float> both = one;
    for (float& value : both) value *= 2;
    Tensors t(10), u(10);
    BatchNorm norm(shape, nullptr), same(shape, nullptr);
    t.bind(norm);
    u.bind(same);
    const TestMap x_map(shape, 2, x), y(shape, 2), dy(shape, 2, one), sum(shape, 2, both), dx(shape, 2),
        want(shape, 2);
    std::vector<std::uint16_t> signs(count / 16);
    for (BatchNorm* n : {&norm, &same}) n->measure(x_map.data(), 2, Mode::train);
    norm.apply(x_map.data(), nullptr, nullptr, y.data(), signs.data(), 2);
    const cpu::BackwardArgs args = {x_map.data(), dy.data(), dy.data(), signs.data()};
    const cpu::BackwardArgs plain = {x_map.data(), sum.data(), nullptr, signs.data()};
    norm.backward_sums(args, nullptr, 2);
    norm.backward(args, dx.data(), 2);
    same.backward_sums(plain, nullptr, 2);
    same.backward(plain, want.data(), 2);
    CHECK(dx.nhwc() == want.nhwc());
    CHECK(t.scale_gradient == u.scale_gradient);
  }
}

TEST_CASE("evaluation uses the running statistics and leaves them") {
  const MapShape shape = {kChannels, kSide, cpu::map_format(Precision::f32)};
  const std::vector<float> x = random_maps(shape.elements(2), 1, shape.format);
  Tensors t(10);
  BatchNorm norm(shape, nullptr);
  t.bind(norm);
  const TestMap x_map(shape, 2, x), y(shape, 2);
  norm.measure(x_map.data(), 2, Mode::evaluate);
  norm.apply(x_map.data(), nullptr, nullptr, y.data(), nullptr, 2);
  Doubles wanted;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % kChannels;
    wanted.push_back(std::max(
        0.0, (static_cast<double>(x[i]) - 0.5) / std::sqrt(2 + 1e-5) * static_cast<double>(t.scale[c]) +
                 static_cast<double>(t.shift[c])));
  }
  CHECK(distance(wanted, y.nhwc()) < 1e-5);
  CHECK(t.mean == std::vector<float>(kChannels, 0.5F));
}

namespace {

/// Three ranks that are threads.
class Exchange {
 public:
  static constexpr int kRanks = 3;

  struct Rank : muster::StatisticsExchange {
    void sum(std::span<double> values) override { all->sum(number, values); }

    Exchange* all = nullptr;
    int number = 0;
  };

  Exchange() {
    for (int r = 0; r < kRanks; ++r) {
      ranks[static_cast<std::size_t>(r)].all = this;
      ranks[static_cast<std::size_t>(r)].number = r;
    }
  }

  void sum(int rank, std::span<double> values) {
    parts_[static_cast<std::size_t>(rank)].assign(values.begin(), values.end());
    barrier_.arrive_and_wait();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 0;
      for (const Doubles& part : parts_) values[i] += part.at(i);
    }
    barrier_.arrive_and_wait();
  }

  std::array<Rank, kRanks> ranks;

 private:
  std::barrier<> barrier_{kRanks};
  std::array<Doubles, kRanks> parts_;
};

/// Statistics and gradients of `batch` images, of which the maps start at image `first` of x and dy.
struct Outcome {
  Tensors tensors{10};
  std::vector<float> dx;
};

Outcome run_rank(muster::StatisticsExchange* exchange, const std::vector<float>& x,
                 const std::vector<float>& pull, std::int64_t first, std::int64_t batch) {
  const MapShape shape = {kChannels, kSide, cpu::map_format(Precision::f32)};
  const auto part = [&](const std::vector<float>& all) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(shape.elements(first));
    return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(shape.elements(batch)));
  };
  Outcome outcome;
  BatchNorm norm(shape, exchange);
  outcome.tensors.bind(norm);
  const TestMap x_map(shape, batch, part(x)), y(shape, batch), dy(shape, batch, part(pull)), dx(shape, batch);
  std::vector<std::uint16_t> signs(shape.elements(batch) / 16);
  norm.measure(x_map.data(), batch, Mode::train);
  norm.apply(x_map.data(), nullptr, nullptr, y.data(), signs.data(), batch);
  const cpu::BackwardArgs args = {x_map.data(), dy.data(), nullptr, signs.data()};
  norm.backward_sums(args, nullptr, batch);
  norm.backward(args, dx.data(), batch);
  outcome.dx = dx.nhwc();
  return outcome;
}

}  // namespace

TEST_CASE("statistics over ranks are those of all images, also with uneven batches and with none") {
  const MapShape shape = {kChannels, kSide, cpu::map_format(Precision::f32)};
  const std::vector<float> x = random_maps(shape.elements(6), 1, shape.format);
  const std::vector<float> pull = random_floats(x.size(), 3);
  const Outcome whole = run_rank(nullptr, x, pull, 0, 6);

  constexpr std::array<std::int64_t, Exchange::kRanks> kFirst = {0, 5, 5};
  constexpr std::array<std::int64_t, Exchange::kRanks> kBatch = {5, 0, 1};
  Exchange exchange;
  std::array<Outcome, Exchange::kRanks> parts;
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < parts.size(); ++r)
    threads.emplace_back([&, r] { parts[r] = run_rank(&exchange.ranks[r], x, pull, kFirst[r], kBatch[r]); });
  for (std::thread& thread : threads) thread.join();

  std::vector<float> dx, scale_gradient(kChannels), shift_gradient(kChannels);
  for (const Outcome& part : parts) {
    dx.insert(dx.end(), part.dx.begin(), part.dx.end());
    CHECK(part.tensors.mean == parts[0].tensors.mean);
    CHECK(part.tensors.variance == parts[0].tensors.variance);
    for (std::size_t c = 0; c < kChannels; ++c) {
      scale_gradient[c] += part.tensors.scale_gradient[c];
      shift_gradient[c] += part.tensors.shift_gradient[c];
    }
  }
  const auto doubles = [](const std::vector<float>& v) { return Doubles(v.begin(), v.end()); };
  CHECK(distance(doubles(whole.dx), dx) < 1e-6);
  CHECK(distance(doubles(whole.tensors.mean), parts[0].tensors.mean) < 1e-6);
  CHECK(distance(doubles(whole.tensors.variance), parts[0].tensors.variance) < 1e-5);
  CHECK(distance(doubles(whole.tensors.scale_gradient), scale_gradient) < 1e-4);
  CHECK(distance(doubles(whole.tensors.shift_gradient), shift_gradient) < 1e-4);
}

}  // namespace batch_norm_test
