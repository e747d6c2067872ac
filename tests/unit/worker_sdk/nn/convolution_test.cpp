// SPDX-License-Identifier: Apache-2.0
// Convolutions against their definition in double precision, their gradients by the adjoint identity (the
// operation is linear in the input and in the weights) and by slopes of the definition.
#include "worker_sdk/nn/cpu/convolution.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/maps.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/network.hpp"

#include <vector>

using namespace muster::test;
using namespace muster::nn;
using cpu::Convolution;
using cpu::ConvolutionShape;

namespace {

#ifdef MUSTER_SANITIZED
constexpr std::size_t kChecked = 2;  // unoptimized and instrumented, the definition takes its time
#else
constexpr std::size_t kChecked = 8;
#endif

/// Images n x side x side x in, weights out x in x kernel x kernel, result n x side' x side' x out.
Doubles reference(const ConvolutionShape& s, int batch, const std::vector<float>& images,
                  const std::vector<float>& weight) {
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  Doubles result;
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t y = 0; y < s.out_side(); ++y)
      for (std::int64_t x = 0; x < s.out_side(); ++x)
        for (std::int64_t o = 0; o < s.out_channels; ++o) {
          double sum = 0;
          for (std::int64_t ky = 0; ky < s.kernel; ++ky)
            for (std::int64_t kx = 0; kx < s.kernel; ++kx) {
              const std::int64_t r = y * s.stride + ky - s.kernel / 2;
              const std::int64_t c = x * s.stride + kx - s.kernel / 2;
              if (r < 0 || c < 0 || r >= s.side || c >= s.side) continue;
              for (std::int64_t i = 0; i < s.in_channels; ++i)
                sum += static_cast<double>(images[at(((n * s.side + r) * s.side + c) * s.in_channels + i)]) *
                       static_cast<double>(
                           weight[at(((o * s.in_channels + i) * s.kernel + ky) * s.kernel + kx)]);
            }
          result.push_back(sum);
        }
  return result;
}

void check(const ConvolutionShape& shape, int batch) {
  CAPTURE(shape.in_channels, shape.out_channels, shape.side, shape.kernel, shape.stride, shape.format.blocked,
          shape.format.bf16, batch);
  const cpu::MapShape in = {shape.in_channels, shape.side, shape.format};
  const cpu::MapFormat& format = shape.format;
  const std::vector<float> images = rounded(random_floats(in.elements(batch), 1), format);
  const std::size_t weights =
      static_cast<std::size_t>(shape.out_channels * shape.in_channels * shape.kernel * shape.kernel);
  std::vector<float> weight = rounded(random_floats(weights, 2), format);
  std::vector<float> gradient(weights, 1e30F);

  Convolution convolution(std::make_shared<cpu::Runtime>(), shape);
  convolution.bind({weight.data(), gradient.data()});
  const cpu::MapShape out = {shape.out_channels, shape.out_side(), shape.format};
  const TestMap src(in, batch, images);
  const TestMap dst(out, batch);
  const void* input = shape.of_images ? static_cast<const void*>(images.data()) : src.data();
  convolution.forward(input, batch, dst.data());

  // Sums of up to 9 x in products of numbers below 1; Winograd's transforms enlarge rounding tenfold.
  const double noise =
      40 * rounding(format) * std::sqrt(static_cast<double>(shape.kernel * shape.kernel * shape.in_channels));
  const Doubles wanted = reference(shape, batch, images, weight);
  CHECK(distance(wanted, dst.nhwc()) < noise);

  // New values are used once they are said to be new.
  weight[0] += 1;
  convolution.weights_changed();
  convolution.forward(input, batch, dst.data());
  CHECK(distance(reference(shape, batch, images, weight), dst.nhwc()) < noise);
  weight[0] -= 1;
  convolution.weights_changed();

  const std::vector<float> pull = rounded(random_floats(out.elements(batch), 3), format);
  const TestMap dst_gradient(out, batch, pull);
  convolution.backward_weights(input, dst_gradient.data(), batch);
  // <Ax, y> = <x, A'y>, with the definition as A and random y: no part of the gradient can be missing.
  const double product = dot(wanted, pull);
  const double scale = noise * std::sqrt(static_cast<double>(pull.size()) * 2);
  CHECK(std::abs(dot(gradient, weight) - product) < scale);
  std::vector<float> probe = weight;
  for (std::size_t k = 0; k < kChecked; ++k) {
    const std::size_t index = k * weights / kChecked;
    const auto loss = [&] { return dot(reference(shape, batch, images, probe), pull); };
    CHECK(std::abs(slope(probe, index, loss, 0.5F) - static_cast<double>(gradient[index])) < scale);
  }
  if (shape.of_images) return;
  const TestMap src_gradient(in, batch);
  convolution.backward_data(dst_gradient.data(), batch, src_gradient.data());
  const std::vector<float> by_input = src_gradient.nhwc();
  CHECK(std::abs(dot(by_input, images) - product) < scale);
  std::vector<float> moved = images;
  for (std::size_t k = 0; k < kChecked; ++k) {
    const std::size_t index = k * moved.size() / kChecked + k;
    const auto loss = [&] { return dot(reference(shape, batch, moved, weight), pull); };
    CHECK(std::abs(slope(moved, index, loss, 0.5F) - static_cast<double>(by_input[index])) < scale);
  }
}

}  // namespace

#ifndef MUSTER_SANITIZED_THREADS  // libgomp and oneDNN are not instrumented: their threads look like races
TEST_CASE("images that are shared out to threads give the gradient of all") {
  const int before = threads();
  set_threads(3);
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    if (!supports(precision)) continue;
    const cpu::MapFormat format = cpu::map_format(precision);
    check({16, 32, 8, 3, 2, format, false}, 5);
    check({32, 16, 8, 1, 2, format, false}, 2);  // fewer than threads
    check({3, 16, 8, 7, 2, format, true}, 4);
  }
  set_threads(before);
}
#endif

TEST_CASE("convolutions and their gradients follow the definition") {
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    if (!supports(precision)) continue;
    const cpu::MapFormat format = cpu::map_format(precision);
    check({16, 32, 8, 3, 1, format, false}, 3);  // Winograd where it is offered
    check({32, 16, 4, 3, 1, format, false}, 1);
    check({16, 16, 2, 3, 1, format, false}, 2);
    check({16, 32, 8, 3, 2, format, false}, 2);
    // Kernels of which some weights never meet a pixel.
    check({16, 16, 1, 3, 1, format, false}, 5);
    check({16, 32, 2, 3, 2, format, false}, 3);
    check({16, 16, 2, 7, 2, format, false}, 2);
    check({32, 16, 8, 1, 2, format, false}, 2);
    check({3, 16, 8, 3, 1, format, true}, 2);
    check({3, 16, 8, 7, 2, format, true}, 3);
  }
  // The layout of processors without AVX-512.
  check({16, 32, 8, 3, 1, {}, false}, 2);
  check({3, 16, 8, 3, 1, {}, true}, 2);
}

TEST_CASE("a convolution of no images has no gradient") {
  std::vector<float> weight(std::size_t{16} * 16 * 9, 1), gradient(weight.size(), 1e30F);
  Convolution convolution(std::make_shared<cpu::Runtime>(),
                          {16, 16, 4, 3, 1, cpu::map_format(Precision::f32), false});
  convolution.bind({weight.data(), gradient.data()});
  convolution.forward(nullptr, 0, nullptr);
  convolution.backward_weights(nullptr, nullptr, 0);
  convolution.backward_data(nullptr, 0, nullptr);
  CHECK(gradient == std::vector<float>(gradient.size(), 0.0F));
}

TEST_CASE("no memory for a primitive is no memory, a refusal is an error that says for what") {
  const auto failing = [](dnnl_status_t status) {
    return [=]() -> int { throw dnnl::error(status, "could not create it"); };
  };
  CHECK_THROWS_AS(cpu::build("a layer", failing(dnnl_out_of_memory)), std::bad_alloc);
  CHECK_THROWS_WITH(cpu::build("a layer", failing(dnnl_unimplemented)),
                    "oneDNN cannot run a layer on this machine: could not create it");
}
