// SPDX-License-Identifier: Apache-2.0
// Layers between maps and rows, tables and dropout of a device, whose bodies a loop runs on the host, against
// their definitions; our own products; and what is refused.
#include "muster/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/worker_sdk/nn/gpu/row_device.hpp"

#include <functional>

namespace muster::nn::gpu {
namespace {

using test::Doubles;
using test::doubles;
using test::random_map;
using test::relative_error;
using test::rounding;

}  // namespace

TEMPLATE_TEST_CASE("positions and the bias of a map repeat, and sum up their gradients", "[gpu]", float,
                   Bf16) {
  // Of 18,000 elements an image, and one block for each 64 of them; and of many rows, which blocks share.
  const auto [batch, tokens, width] =
      GENERATE(table<std::int64_t, std::int64_t, std::int64_t>({{3, 5, 7}, {2, 300, 60}, {8, 400, 8}}));
  CAPTURE(tokens, width);
  Device<TestType> device;
  Parameter positions(tokens * width, 1);
  Positions<TestType> layer(device.room, tokens, width);
  layer.bind(positions.slot());
  auto x = random_map<TestType>(at(batch * tokens * width), 2);
  const Doubles xs = doubles(x);
  layer.forward(x.data(), batch, x.data());
  Doubles wanted;
  Doubles sums(positions.values.size());
  Doubles by_column(at(width));
  for (std::size_t i = 0; i < xs.size(); ++i) {
    wanted.push_back(xs[i] + static_cast<double>(positions.values[i % sums.size()]));
    sums[i % sums.size()] += static_cast<double>(to_float(x[i]));
    by_column[i % at(width)] += static_cast<double>(to_float(x[i]));
  }
  CHECK(relative_error(wanted, x) < 1e-6 + rounding<TestType>());
  for (int use = 0; use < 2; ++use) {
    positions.gradients.assign(positions.gradients.size(), 0);
    layer.backward(x.data(), batch);
    CHECK(relative_error(sums, positions.gradients) < 1e-6);
  }
  if (width % 8 != 0) return;
  Parameter bias(width, 3);
  MapBias<TestType> map(device.room, {width, 20});
  map.bind(bias.slot());
  map.backward(x.data(), batch);
  CHECK(relative_error(by_column, bias.gradients) < 1e-5);
  const Doubles before = doubles(x);
  map.forward(x.data(), batch, x.data());
  for (std::size_t i = 0; i < before.size(); ++i)
    wanted[i] = before[i] + static_cast<double>(bias.values[i % at(width)]);
  CHECK(relative_error(wanted, x) < 1e-6 + rounding<TestType>());
}

TEMPLATE_TEST_CASE("an embedding picks rows, and adds their gradients in order", "[gpu]", float, Bf16) {
  const std::int64_t width = GENERATE(8, 5);
  const std::vector<std::int32_t> ids = {3, 0, 3, 6, 3, 1};
  Device<TestType> device;
  Parameter table(7 * width, 1);
  Embedding<TestType> layer(device.room, 7, 3, width);
  layer.bind(table.slot());
  std::vector<TestType> y(ids.size() * at(width));
  layer.forward(ids.data(), 6, y.data());
  const auto dy = random_map<TestType>(y.size(), 2);
  layer.backward(ids.data(), dy.data(), 6);
  std::vector<float> wanted(table.gradients.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t place = at(ids[i / at(width)]) * at(width) + i % at(width);
    CHECK(to_float(y[i]) == to_float(from_float<TestType>(table.values[place])));
    wanted[place] += to_float(dy[i]);
  }
  CHECK(table.gradients == wanted);
  const std::vector<std::int32_t> wrong = {7, -1};
  layer.forward(wrong.data(), 2, y.data());
  CHECK(std::isnan(to_float(y[0])));
  CHECK(std::isnan(to_float(y[at(width)])));
}

TEMPLATE_TEST_CASE("dropout drops its share by the place of an element alone", "[gpu]", float, Bf16) {
  const std::int64_t width = GENERATE(24, 9);
  const std::int64_t tokens = 11;
  const DropoutKey key = {9, 4, 2, 1};
  Device<TestType> device;
  const Dropout<TestType> layer(device.room, tokens, width, 0.25);
  const std::size_t sample = at(tokens * width);
  const std::vector<TestType> ones(3 * sample, from_float<TestType>(1));
  std::vector<TestType> y(ones.size());
  layer.forward(ones.data(), 3 * tokens, y.data(), key);
  const DropoutShare share = DropoutShare::of(0.25);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t element = i % sample;
    const auto words = dropout_words(key, 2 + i / sample, static_cast<std::uint32_t>(element / 4));
    REQUIRE(to_float(y[i]) == to_float(from_float<TestType>(share.factor(words[element % 4]))));
  }
  // The second sample alone, and with the key of a recorded step, draws the same.
  DropoutKey second = key;
  second.first = 3;
  std::vector<TestType> alone(ones.begin(), ones.begin() + static_cast<std::ptrdiff_t>(sample));
  layer.backward(alone.data(), tokens, alone.data(), second);
  const Doubles all = doubles(y);
  const Doubles wanted(all.begin() + static_cast<std::ptrdiff_t>(sample),
                       all.begin() + static_cast<std::ptrdiff_t>(2 * sample));
  CHECK(doubles(alone) == wanted);
  device.room.set_dropout_key(second);
  layer.forward(ones.data(), tokens, alone.data(), {1, 1, 1, key.layer});
  CHECK(doubles(alone) == wanted);
}

TEMPLATE_TEST_CASE("maps become rows in PyTorch's order, or one for each pixel", "[gpu]", float, Bf16) {
  const std::int64_t side = GENERATE(3, 7);
  const std::int64_t channels = 40;
  const std::size_t pixels = at(side * side);
  Device<TestType> device;
  const MapExtent extent = {channels, side};
  const Flatten<TestType> flatten(device.room, extent);
  const auto map = random_map<TestType>(2 * extent.elements(), 1);
  std::vector<TestType> y(map.size());
  flatten.forward(map.data(), 2, y.data());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t image = i / extent.elements();
    const std::size_t channel = i % extent.elements() / pixels;
    REQUIRE(to_float(y[i]) == to_float(map[(image * pixels + i % pixels) * at(channels) + channel]));
  }
  std::vector<TestType> back(map.size());
  flatten.backward(y.data(), 2, back.data());
  CHECK(doubles(back) == doubles(map));
  const Tokens<TestType> tokens(device.room, extent);
  tokens.forward(map.data(), 2, y.data());
  CHECK(doubles(y) == doubles(map));
  tokens.backward(map.data(), 2, back.data());
  CHECK(doubles(back) == doubles(map));

  const TokenMean<TestType> mean(device.room, side * side, channels);
  std::vector<TestType> means(2 * at(channels));
  mean.forward(map.data(), 2, means.data());
  Doubles wanted(means.size());
  for (std::size_t i = 0; i < map.size(); ++i)
    wanted[i / extent.elements() * at(channels) + i % at(channels)] +=
        static_cast<double>(to_float(map[i])) / static_cast<double>(pixels);
  CHECK(relative_error(wanted, means) < bound<TestType>());
  mean.backward(means.data(), 2, back.data());
  for (std::size_t i = 0; i < map.size(); ++i)
    REQUIRE(to_float(back[i]) ==
            to_float(from_float<TestType>(
                to_float(means[i / extent.elements() * at(channels) + i % at(channels)]) *
                (1.0F / static_cast<float>(pixels)))));

  const Grey<TestType> grey(device.room, {3, side});
  const auto images = random_map<TestType>(2 * pixels * kPack, 2);
  std::vector<TestType> greys(2 * pixels);
  grey.forward(images.data(), 2, greys.data());
  Doubles colours;
  for (std::size_t i = 0; i < greys.size(); ++i) {
    const auto colour = [&](std::size_t c) { return static_cast<double>(to_float(images[i * kPack + c])); };
    colours.push_back((colour(0) + colour(1) + colour(2)) / 3);
  }
  CHECK(relative_error(colours, greys) < 1e-6 + rounding<TestType>());
}

TEST_CASE("our own products are those of the definition in every layout", "[gpu]") {
  const std::int64_t batches = 2;
  const std::int64_t m = 70;
  const std::int64_t n = 66;
  const std::int64_t k = 9;
  const bool a_turned = GENERATE(false, true);
  const bool b_turned = GENERATE(false, true);
  const bool bf16 = GENERATE(false, true);
  const auto floats = random_map<float>(at(batches * (m + n) * k), 1);
  const auto halves = random_map<Bf16>(floats.size(), 1);
  HostOps ops;
  MultiplyCall call;
  call.batches = batches;
  call.m = m;
  call.n = n;
  call.k = k;
  const std::ptrdiff_t second = batches * m * k;
  call.a = {bf16 ? static_cast<const void*>(halves.data()) : floats.data(), a_turned ? 1 : k,
            a_turned ? m : 1, m * k};
  call.b = {bf16 ? static_cast<const void*>(halves.data() + second) : floats.data() + second,
            b_turned ? 1 : n, b_turned ? k : 1, n * k};
  call.element = bf16 ? Element::bf16 : Element::f32;
  call.result_row = n + 3;
  call.result_batch = m * (n + 3);
  std::vector<float> wanted(at(batches * call.result_batch), 7.0F);
  std::vector<float> got = wanted;
  call.result = wanted.data();
  ops.multiply(call);
  call.result = got.data();
  multiply_by_kernel(ops, call);
  CHECK(got == wanted);
  CHECK(got[at(n)] == 7.0F);
}

TEST_CASE("layers of rows do nothing for no rows", "[gpu]") {
  Device<float> device;
  Parameter weight(64, 1);
  Linear<float> linear(device.room, 8, 8, true);
  linear.bind(weight.slot(), weight.slot());
  linear.forward(nullptr, 0, nullptr);
  linear.backward(nullptr, nullptr, 0, nullptr);
  LayerNorm<float> norm(device.room, 1, 8);
  norm.bind(weight.slot(), weight.slot());
  norm.backward(nullptr, nullptr, 0, nullptr);
  const Attention<float> attention(device.room, 2, 8, 2);
  attention.forward(nullptr, 0, nullptr);
  attention.backward(nullptr, nullptr, 0, nullptr);
  CHECK(weight.gradients == std::vector<float>(64, 1e30F));
}

TEST_CASE("a layer that cannot have its width on a device says so", "[gpu]") {
  Device<float> device;
  const auto text = [](const std::function<void()>& make) {
    return test::error_of(make, ErrorCode::unsupported);
  };
  CHECK(text([&] {
          (void)Flatten<float>(device.room, {20, 4});
        }) == "on a GPU there is no flattened map of channels 20; give a multiple of 8, or train on the CPU");
  CHECK_THAT(text([&] { (void)TokenMean<float>(device.room, 4, 12); }), Contains("mean over tokens"));
  CHECK_THAT(text([&] {
               (void)Norm<float>(device.room, {192, 8});
             }),
             Contains("batch norm of width 192; give a power of two from 8 to 2048"));
  CHECK_THAT(text([&] {
               (void)Convolution<float>(device.room, {8, 20, 8, 3, 1});
             }),
             Contains("convolution to width 20"));
  CHECK_THAT(
      test::error_of([&] { (void)Attention<float>(device.room, 4, 10, 4); }, ErrorCode::invalid_argument),
      Contains("attention of width 10 cannot be shared by 4 heads"));
}

}  // namespace muster::nn::gpu
