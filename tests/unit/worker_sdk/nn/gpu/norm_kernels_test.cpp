// SPDX-License-Identifier: Apache-2.0
// The bodies of the GPU's kernels, run by a loop on the host, against formulas in double precision.
#include "tests/support/catch.hpp"
#include "tests/unit/worker_sdk/nn/gpu/values.hpp"
#include "worker_sdk/nn/gpu/kernels/batch_norm.hpp"

namespace muster::nn::gpu {
namespace {

using test::at;
using test::Doubles;
using test::doubles;
using test::random_map;
using test::relative_error;
using test::rounding;

/// Everything that a batch norm owns, on the host.
struct NormCase {
  explicit NormCase(MapSize size) : map(size), values(at(7 * size.channels)), partials(partial_floats(size)) {
    const std::size_t channels = at(size.channels);
    weight = random_map<float>(channels, 1, 0.5F, 1.0F);
    bias = random_map<float>(channels, 2);
    mean = random_map<float>(channels, 3);
    variance = random_map<float>(channels, 4, 0.5F, 1.0F);
  }

  NormState state() {
    float* p = values.data();
    const int c = map.channels;
    return {p, p + c, p + 2 * c, p + 3 * c, p + 4 * c, p + 5 * c, p + 6 * c};
  }

  NormTensors tensors() { return {weight.data(), bias.data(), mean.data(), variance.data()}; }

  template <typename T>
  void measure(const std::vector<T>& x) {
    run_on_host(NormMoments<T>{map, x.data(), partials.data(), {map, x.data(), tensors(), state()}});
  }

  MapSize map;
  std::vector<float> values, partials, weight, bias, mean, variance;
};

struct Statistics {
  Doubles mean, variance;
};

Statistics statistics(const Doubles& x, const MapSize& map) {
  Statistics result;
  for (int c = 0; c < map.channels; ++c) {
    double sum = 0;
    double square = 0;
    for (std::int64_t r = 0; r < map.rows; ++r) sum += x[at(r * map.channels + c)];
    const double mean = sum / static_cast<double>(map.rows);
    for (std::int64_t r = 0; r < map.rows; ++r) square += std::pow(x[at(r * map.channels + c)] - mean, 2);
    result.mean.push_back(mean);
    result.variance.push_back(square / static_cast<double>(map.rows));
  }
  return result;
}

/// Of several blocks and of less than one; as narrow and as wide as ours get.
const MapSize kMaps[] = {{1, 64},   {37, 8},     {700, 64},  {9000, 16},
                         {65, 512}, {2000, 128}, {40, 2048}, {9000, 512}};

}  // namespace

TEMPLATE_TEST_CASE("statistics of a batch are those of doubles, far from zero too", "[gpu]", float, Bf16) {
  for (const MapSize& map : kMaps) {
    CAPTURE(map.rows, map.channels);
    NormCase norm(map);
    // A mean of 100 deviations: where sums of squares around zero would lose all digits of the variance.
    const auto x = random_map<TestType>(at(map.rows * map.channels), 5, 0.5F, 50.0F);
    const Statistics wanted = statistics(doubles(x), map);
    Doubles running_mean;
    Doubles running_variance;
    const double unbias =
        map.rows > 1 ? static_cast<double>(map.rows) / static_cast<double>(map.rows - 1) : 1;
    for (std::size_t c = 0; c < norm.mean.size(); ++c) {
      running_mean.push_back(0.9 * static_cast<double>(norm.mean[c]) + 0.1 * wanted.mean[c]);
      running_variance.push_back(0.9 * static_cast<double>(norm.variance[c]) +
                                 0.1 * wanted.variance[c] * unbias);
    }
    norm.measure(x);
    const NormState state = norm.state();
    for (std::size_t c = 0; c < norm.mean.size(); ++c) {
      CHECK(static_cast<double>(state.mean[c]) == Approx(wanted.mean[c]).epsilon(1e-6));
      CHECK(static_cast<double>(state.inverse[c]) ==
            Approx(1 / std::sqrt(wanted.variance[c] + 1e-5)).epsilon(2e-5));
    }
    CHECK(relative_error(running_mean, norm.mean) < 1e-6);
    CHECK(relative_error(running_variance, norm.variance) < 1e-5);
    // The counters of blocks are as they were: the next use of the memory gives the same.
    const std::vector<float> first = norm.values;
    norm.measure(x);
    CHECK(norm.values == first);
  }
}

TEMPLATE_TEST_CASE("norm, sum and ReLU give what the formula gives, and a bit for each positive element",
                   "[gpu]", float, Bf16) {
  const MapSize map = {321, 32};
  const std::size_t count = at(map.rows * map.channels);
  NormCase norm(map);
  NormCase other(map);
  const auto x = random_map<TestType>(count, 6, 2);
  const auto addend = random_map<TestType>(count, 7, 3, 0.5F);
  norm.measure(x);
  other.measure(addend);
  const int form = GENERATE(0, 1, 2);  // alone, with a map, with a map that has a norm of its own
  CAPTURE(form);
  std::vector<TestType> y(count);
  std::vector<std::uint8_t> signs(count / 8);
  const NormState state = norm.state();
  const NormState second = other.state();
  run_on_host(ScaleAddRelu<TestType>{map, x.data(), state.scale, state.shift,
                                     form > 0 ? addend.data() : nullptr, form > 1 ? second.scale : nullptr,
                                     second.shift, y.data(), signs.data()});
  const Doubles xs = doubles(x);
  const Doubles adds = doubles(addend);
  const Statistics own = statistics(xs, map);
  const Statistics others = statistics(adds, map);
  const auto normed = [](double value, const Statistics& s, const NormCase& n, std::size_t c) {
    return static_cast<double>(n.weight[c]) * (value - s.mean[c]) / std::sqrt(s.variance[c] + 1e-5) +
           static_cast<double>(n.bias[c]);
  };
  Doubles wanted;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t c = i % 32;
    double sum = normed(xs[i], own, norm, c);
    if (form == 1) sum += adds[i];
    if (form == 2) sum += normed(adds[i], others, other, c);
    wanted.push_back(std::max(0.0, sum));
    if (std::abs(sum) > 1e-5) REQUIRE(((signs[i / 8] >> (i % 8)) & 1) == (sum > 0 ? 1 : 0));
  }
  CHECK(relative_error(wanted, y) < 1e-6 + 2 * rounding<TestType>());
}

TEMPLATE_TEST_CASE("the gradient of batch norm and ReLU is that of doubles", "[gpu]", float, Bf16) {
  for (const MapSize& map : {MapSize{37, 8}, MapSize{900, 64}, MapSize{33, 512}}) {
    CAPTURE(map.rows, map.channels);
    const std::size_t count = at(map.rows * map.channels);
    NormCase norm(map);
    const auto x = random_map<TestType>(count, 8, 1, 0.3F);
    const auto one = random_map<TestType>(count, 9);
    const auto two = random_map<TestType>(count, 10);
    std::vector<std::uint8_t> signs;
    for (const float value : random_map<float>(count / 8, 11, 128, 128))
      signs.push_back(static_cast<std::uint8_t>(value));
    norm.measure(x);
    std::vector<TestType> g(count);
    std::vector<TestType> dx(count);
    std::vector<float> weight_gradient(norm.weight.size());
    std::vector<float> bias_gradient(norm.weight.size());
    const MaskedGradient<TestType> masked = {one.data(), two.data(), signs.data()};
    run_on_host(NormGradientSums<TestType>{
        map,
        masked,
        x.data(),
        norm.state().mean,
        g.data(),
        norm.partials.data(),
        {map, norm.weight.data(), norm.state(), weight_gradient.data(), bias_gradient.data()}});
    run_on_host(NormBackward<TestType>{map, masked, x.data(), norm.state(), dx.data()});

    const Doubles xs = doubles(x);
    const Statistics s = statistics(xs, map);
    Doubles gs;
    for (std::size_t i = 0; i < count; ++i)
      gs.push_back(((signs[i / 8] >> (i % 8)) & 1) != 0
                       ? static_cast<double>(to_float(one[i])) + static_cast<double>(to_float(two[i]))
                       : 0);
    Doubles wanted_weight;
    Doubles wanted_bias;
    Doubles wanted(count);
    const auto rows = static_cast<double>(map.rows);
    for (std::size_t c = 0; c < norm.weight.size(); ++c) {
      const double inverse = 1 / std::sqrt(s.variance[c] + 1e-5);
      double sum = 0;
      double product = 0;
      for (std::size_t i = c; i < count; i += norm.weight.size()) {
        sum += gs[i];
        product += gs[i] * (xs[i] - s.mean[c]) * inverse;
      }
      wanted_weight.push_back(product);
      wanted_bias.push_back(sum);
      for (std::size_t i = c; i < count; i += norm.weight.size())
        wanted[i] = static_cast<double>(norm.weight[c]) * inverse *
                    (gs[i] - sum / rows - (xs[i] - s.mean[c]) * inverse * product / rows);
    }
    CHECK(relative_error(gs, g) <= rounding<TestType>() * 1.01);
    CHECK(relative_error(wanted_weight, weight_gradient) < 1e-5);
    CHECK(relative_error(wanted_bias, bias_gradient) < 1e-5);
    CHECK(relative_error(wanted, dx) < 1e-5 + 2 * rounding<TestType>());
  }
}

TEST_CASE("a batch of none leaves the running statistics alone and has gradients of zero", "[gpu]") {
  NormCase norm({0, 16});
  const std::vector<float> mean = norm.mean;
  const std::vector<float> nothing;
  norm.measure(nothing);
  CHECK(norm.mean == mean);
  std::vector<float> gradients(32, 1.0F);
  run_on_host(NormGradientSums<float>{
      norm.map,
      {nullptr, nullptr, nullptr},
      nullptr,
      nullptr,
      nullptr,
      norm.partials.data(),
      {norm.map, norm.weight.data(), norm.state(), gradients.data(), gradients.data() + 16}});
  CHECK(gradients == std::vector<float>(32));
}

TEST_CASE("an evaluation uses the running statistics", "[gpu]") {
  NormCase norm({4, 16});
  run_on_host(NormRunning{16, norm.tensors(), norm.state()});
  for (std::size_t c = 0; c < 16; ++c) {
    const double scale =
        static_cast<double>(norm.weight[c]) / std::sqrt(static_cast<double>(norm.variance[c]) + 1e-5);
    CHECK(static_cast<double>(norm.state().scale[c]) == Approx(scale));
    CHECK(static_cast<double>(norm.state().shift[c]) ==
          Approx(static_cast<double>(norm.bias[c]) - static_cast<double>(norm.mean[c]) * scale).margin(1e-6));
  }
}

TEST_CASE("a value that is not a number passes norm and ReLU", "[gpu]") {
  const MapSize map = {1, 8};
  const std::vector<float> x(8, std::nanf(""));
  const std::vector<float> shift(8);
  std::vector<float> y(8);
  run_on_host(ScaleAddRelu<float>{map, x.data(), nullptr, shift.data(), nullptr, nullptr, nullptr, y.data(),
                                  nullptr});
  CHECK(std::isnan(y[3]));
  CHECK(std::isnan(to_float(from_float<Bf16>(x[0]))));
}

TEST_CASE("the gradient of a bias leaves padding out", "[gpu]") {
  const MapSize map = {50, 16};
  const auto dy = random_map<Bf16>(800, 12);
  std::vector<float> partials(partial_floats(map));
  std::vector<float> gradient(11, 7.0F);
  run_on_host(
      GradientSums<Bf16>{map, {dy.data(), nullptr, nullptr}, nullptr, nullptr, nullptr, partials.data()});
  run_on_host(BiasGradient{map, partials.data(), 10, gradient.data()});
  for (std::size_t c = 0; c < 10; ++c) {
    double sum = 0;
    for (std::size_t i = c; i < 800; i += 16) sum += static_cast<double>(to_float(dy[i]));
    CHECK(static_cast<double>(gradient[c]) == Approx(sum).margin(1e-5));
  }
  CHECK(gradient[10] == 7.0F);
}

}  // namespace muster::nn::gpu
