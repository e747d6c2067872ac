// SPDX-License-Identifier: Apache-2.0
// Forward against the definition in double precision; backward against finite differences of that definition.
#include "worker_sdk/nn/cpu/linear.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/reference.hpp"

#include <vector>

namespace linear_test {

using namespace muster::test;
namespace cpu = muster::nn::cpu;

namespace {

#ifdef MUSTER_SANITIZED
constexpr std::size_t kChecked = 20;  // unoptimized and instrumented, the definitions take their time
#else
constexpr std::size_t kChecked = 60;
#endif

/// Parameters of one layer, their gradients and the weights of a scalar "loss" = sum(result * pull).
struct Setup {
  Setup(std::size_t weights, std::size_t biases, std::size_t inputs)
      : weight(random_floats(weights, 1)),
        bias(random_floats(biases, 2)),
        input(random_floats(inputs, 3)),
        weight_gradient(weights, 1e30F),  // must be overwritten, not added to
        bias_gradient(biases, 1e30F) {}

  void bind(auto& layer) {
    layer.bind({weight.data(), weight_gradient.data()}, {bias.data(), bias_gradient.data()});
  }

  std::vector<float> weight, bias, input, weight_gradient, bias_gradient;
};

/// Compares some of `gradient` with the slopes of `loss` along `values`. A slope over a kink (two values of a
/// pooling window, or a ReLU, within the step) is not a gradient, so a few may differ.
template <typename Loss>
void check_gradient(const float* gradient, std::vector<float>& values, const Loss& loss, const char* name) {
  INFO(name);
  const std::size_t checked = std::min(values.size(), kChecked);
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < checked; ++k) {
    const std::size_t index = k * values.size() / checked;
    const double wanted = slope(values, index, loss);
    if (std::abs(wanted - static_cast<double>(gradient[index])) > 1e-3 * (1 + std::abs(wanted))) ++wrong;
  }
  CHECK(wrong * 20 <= checked);
}

double weighted(const Doubles& result, const std::vector<float>& pull) {
  double sum = 0;
  for (std::size_t i = 0; i < result.size(); ++i) sum += result[i] * static_cast<double>(pull[i]);
  return sum;
}

/// A linear layer, or with `hidden` one with ReLU.
void check_linear(std::size_t batch, std::size_t in, std::size_t out, bool hidden) {
  Setup s(out * in, out, batch * in);
  const auto images = static_cast<std::int64_t>(batch);
  const cpu::LinearShape shape = {static_cast<std::int64_t>(in), static_cast<std::int64_t>(out)};
  cpu::Linear linear(std::make_shared<cpu::Runtime>(), shape);
  cpu::HiddenLinear with_relu(std::make_shared<cpu::Runtime>(), shape);
  s.bind(linear);
  s.bind(with_relu);
  const Doubles wanted = reference_linear(s.input, s.weight, s.bias, hidden);
  std::vector<float> result(batch * out, 1e30F);
  if (hidden)
    with_relu.forward(s.input.data(), images, result.data());
  else
    linear.forward(s.input.data(), images, result.data());
  CHECK(distance(wanted, result) < 1e-4);

  const std::vector<float> pull = random_floats(wanted.size(), 4);
  std::vector<float> gradient = pull;
  std::vector<float> input_gradient = s.input;  // written where the input was
  float* const x = input_gradient.data();
  if (hidden)
    with_relu.backward(x, result.data(), gradient.data(), images, x);
  else
    linear.backward(x, gradient.data(), images, x);
  const auto loss = [&] { return weighted(reference_linear(s.input, s.weight, s.bias, hidden), pull); };
  check_gradient(s.weight_gradient.data(), s.weight, loss, "weight");
  check_gradient(s.bias_gradient.data(), s.bias, loss, "bias");
  check_gradient(input_gradient.data(), s.input, loss, "input");
}

}  // namespace

TEST_CASE("A linear layer: result and gradients") {
  for (const bool hidden : {false, true}) {
    CAPTURE(hidden);
    check_linear(4, 128, 10, hidden);
    check_linear(5, 40, 24, hidden);
    check_linear(1, 33, 3, hidden);
  }
}

TEST_CASE("A linear layer without bias, whose input's gradient nobody wants") {
  Setup s(24 * 40, 24, 5 * 40);
  const std::vector<float> none(24, 0);
  cpu::Linear layer(std::make_shared<cpu::Runtime>(), {40, 24, false});
  layer.bind({s.weight.data(), s.weight_gradient.data()}, {});
  std::vector<float> result(5 * 24, 1e30F);
  layer.forward(s.input.data(), 5, result.data());
  const auto definition = [&] { return reference_linear(s.input, s.weight, none, false); };
  CHECK(distance(definition(), result) < 1e-4);
  const std::vector<float> pull = random_floats(result.size(), 4);
  layer.backward(s.input.data(), pull.data(), 5, nullptr);
  check_gradient(
      s.weight_gradient.data(), s.weight, [&] { return weighted(definition(), pull); }, "weight");
}

TEST_CASE("A linear layer changes between batch sizes and sees changed weights") {
  Setup s(24 * 3, 3, 4 * 24);
  cpu::Linear layer(std::make_shared<cpu::Runtime>(), {24, 3});
  s.bind(layer);
  for (const std::int64_t batch : {4, 1, 3, 4}) {
    INFO("batch " << batch);
    s.weight[7] += 0.5F;
    const std::vector<float> part(s.input.begin(), s.input.begin() + batch * 24);
    std::vector<float> result(static_cast<std::size_t>(batch) * 3);
    layer.forward(part.data(), batch, result.data());
    CHECK(distance(reference_linear(part, s.weight, s.bias, false), result) < 1e-4);
  }
}

}  // namespace linear_test
