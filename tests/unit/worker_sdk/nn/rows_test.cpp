// SPDX-License-Identifier: Apache-2.0
// Layers over rows: forward against the definition in double precision, backward against slopes of that
// definition; what dropout keeps; that nothing depends on the number of threads.
#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/unit/worker_sdk/nn/maps.hpp"
#include "worker_sdk/nn/cpu/layers.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <vector>

namespace rows_test {

using namespace muster::test;
using muster::nn::DropoutKey;
using muster::nn::DropoutShare;
using Layers = muster::nn::cpu::Layers;
using Values = std::vector<float>;

namespace {

constexpr float kUnwritten = 1e30F;

struct TestRoom : Layers::Room {
  explicit TestRoom() : Layers::Room(muster::nn::NetworkOptions{}) {}
};

/// Compares `gradient` with the slopes of sum(definition() * pull) along some of `values`.
void check_slopes(const Values& gradient, Values& values, const Values& pull,
                  const std::function<Doubles()>& definition) {
  const std::size_t checked = std::min<std::size_t>(values.size(), 40);
  for (std::size_t k = 0; k < checked; ++k) {
    const std::size_t i = k * values.size() / checked;
    const double wanted = slope(values, i, [&] { return dot(definition(), pull); });
    CAPTURE(i);
    CHECK(static_cast<double>(gradient[i]) == Approx(wanted).epsilon(2e-3).margin(2e-3));
  }
}

/// softmax(q k^T / sqrt(d)) v of each head, written down.
Doubles attention(const Values& qkv, std::size_t batch, std::size_t tokens, std::size_t width,
                  std::size_t heads) {
  const std::size_t d = width / heads;
  const auto at = [&](std::size_t n, std::size_t t, std::size_t part, std::size_t column) {
    return static_cast<double>(qkv[((n * tokens + t) * 3 + part) * width + column]);
  };
  Doubles y(batch * tokens * width);
  for (std::size_t n = 0; n < batch; ++n)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = 0; i < tokens; ++i) {
        Doubles share(tokens);
        for (std::size_t j = 0; j < tokens; ++j) {
          double product = 0;
          for (std::size_t c = h * d; c < (h + 1) * d; ++c) product += at(n, i, 0, c) * at(n, j, 1, c);
          share[j] = std::exp(product / std::sqrt(static_cast<double>(d)));
        }
        const double sum = std::accumulate(share.begin(), share.end(), 0.0);
        for (std::size_t c = h * d; c < (h + 1) * d; ++c)
          for (std::size_t j = 0; j < tokens; ++j)
            y[(n * tokens + i) * width + c] += share[j] / sum * at(n, j, 2, c);
      }
  return y;
}

Doubles layer_norm(const Values& x, const Values& scale, const Values& shift) {
  const std::size_t width = scale.size();
  Doubles y;
  for (std::size_t r = 0; r < x.size() / width; ++r) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < width; ++c)
      mean += static_cast<double>(x[r * width + c]) / static_cast<double>(width);
    for (std::size_t c = 0; c < width; ++c)
      variance += std::pow(static_cast<double>(x[r * width + c]) - mean, 2) / static_cast<double>(width);
    for (std::size_t c = 0; c < width; ++c)
      y.push_back((static_cast<double>(x[r * width + c]) - mean) / std::sqrt(variance + 1e-5) *
                      static_cast<double>(scale[c]) +
                  static_cast<double>(shift[c]));
  }
  return y;
}

Doubles gelu(const Values& x) {
  Doubles y;
  for (const float value : x) {
    const auto v = static_cast<double>(value);
    y.push_back(v * 0.5 * std::erfc(-v / std::numbers::sqrt2));
  }
  return y;
}

}  // namespace

TEST_CASE("GELU and its slope from far left to far right") {
  TestRoom room;
  Values x(501);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<float>(i) - 250) / 25;
  Layers::Gelu layer(room, 3, 167);
  Values y(x.size(), kUnwritten);
  layer.forward(x.data(), 3, y.data());
  CHECK(distance(gelu(x), y) < 1e-6);
  const Values pull = random_floats(x.size(), 1);
  Values dx = pull;
  layer.backward(x.data(), dx.data(), 3, dx.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto v = static_cast<double>(x[i]);
    const double density = std::exp(-v * v / 2) / std::sqrt(2 * std::numbers::pi);
    const double wanted = (0.5 * std::erfc(-v / std::numbers::sqrt2) + v * density);
    CHECK(static_cast<double>(dx[i]) == Approx(wanted * static_cast<double>(pull[i])).margin(2e-6));
  }
}

TEST_CASE("Layer norm: result and gradients, in place") {
  TestRoom room;
  for (const std::size_t width : {1U, 5U, 16U, 33U}) {
    CAPTURE(width);
    constexpr std::size_t kRows = std::size_t{2} * 70;  // two samples; more rows than there are parts of sums
    Values x = random_floats(kRows * width, 1), scale = random_floats(width, 2),
           shift = random_floats(width, 3), scale_gradient(width, kUnwritten),
           shift_gradient(width, kUnwritten);
    Layers::LayerNorm layer(room, 70, static_cast<std::int64_t>(width));
    layer.bind({scale.data(), scale_gradient.data()}, {shift.data(), shift_gradient.data()});
    room.begin(2);
    Values y(x.size(), kUnwritten);
    layer.forward(x.data(), kRows, y.data());
    const auto definition = [&] { return layer_norm(x, scale, shift); };
    CHECK(distance(definition(), y) < 1e-5);
    const Values pull = random_floats(x.size(), 4);
    Values dx = pull;
    layer.backward(x.data(), dx.data(), kRows, dx.data());
    Values over_x = x;
    layer.backward(over_x.data(), pull.data(), kRows, over_x.data());
    CHECK(over_x == dx);
    check_slopes(scale_gradient, scale, pull, definition);
    check_slopes(shift_gradient, shift, pull, definition);
    if (width > 1) check_slopes(dx, x, pull, definition);  // of one value, the slope is that of rounding
  }
}

TEST_CASE("Attention: result and gradients, in place") {
  TestRoom room;

  struct Case {
    std::size_t tokens, width, heads;
  };

  // Widths of a head below, at and above a vector; one more token than a block of queries.
  for (const Case& size : {Case{1, 3, 1}, {5, 6, 2}, {17, 48, 3}, {65, 40, 2}}) {
    const std::size_t tokens = size.tokens, width = size.width, heads = size.heads;
    CAPTURE(tokens, width, heads);
    Values qkv = random_floats(2 * tokens * 3 * width, 1);
    for (float& value : qkv) value *= 2;
    Layers::Attention layer(room, static_cast<std::int64_t>(tokens), static_cast<std::int64_t>(width),
                            static_cast<std::int64_t>(heads));
    room.begin(2);
    Values y(2 * tokens * width, kUnwritten);
    layer.forward(qkv.data(), 2, y.data());
    const auto definition = [&] { return attention(qkv, 2, tokens, width, heads); };
    CHECK(distance(definition(), y) < 1e-5);
    const Values pull = random_floats(y.size(), 2);
    Values dqkv = qkv;
    layer.backward(dqkv.data(), pull.data(), 2, dqkv.data());
    check_slopes(dqkv, qkv, pull, definition);
  }
}

TEST_CASE("Attention refuses heads that do not divide the width") {
  TestRoom room;
  CHECK_THROWS_AS(Layers::Attention(room, 4, 10, 3), muster::Error);
  CHECK_THROWS_AS(Layers::Attention(room, 4, 10, 0), muster::Error);
}

TEST_CASE("What is not a number stays so in every layer over rows") {
  TestRoom room;
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  Values x = {1, -2, kNone, 3, -0.0F}, y(5), zeros(5), ones(5, 1);
  Values gradient(5);
  Layers::Relu relu(room, 1, 5);
  relu.forward(x.data(), 1, y.data());
  CHECK((y[0] == 1 && y[1] == 0 && std::isnan(y[2]) && y[3] == 3 && y[4] == 0));
  relu.backward(y.data(), ones.data(), 1, gradient.data());
  CHECK(gradient == Values{1, 0, 0, 1, 0});
  Layers::Gelu(room, 1, 5).forward(x.data(), 1, y.data());
  CHECK(std::isnan(y[2]));
  Layers::LayerNorm norm(room, 1, 5);
  norm.bind({ones.data(), gradient.data()}, {zeros.data(), gradient.data()});
  Layers::Attention attention_layer(room, 5, 1, 1);
  room.begin(1);
  norm.forward(x.data(), 1, y.data());
  CHECK(std::isnan(y[0]));
  Values qkv(15, 1);
  qkv[3] = kNone;  // a query: its own result; the others are numbers
  attention_layer.forward(qkv.data(), 1, y.data());
  CHECK((y[0] == 1 && std::isnan(y[1]) && y[2] == 1));
  qkv[3] = 1;
  qkv[4] = kNone;  // a key: every result
  attention_layer.forward(qkv.data(), 1, y.data());
  CHECK((std::isnan(y[0]) && std::isnan(y[4])));
  // Dropped or not.
  Values none(400, kNone);
  Layers::Dropout(room, 1, 400, 0.5).forward(none.data(), 1, none.data(), {});
  for (const float value : none) CHECK(std::isnan(value));
}

TEST_CASE("Positions, means, sums and embeddings of known rows") {
  TestRoom room;
  Values x = {1, 2, 3, 4, 5, 6, 7, 8};  // two samples of two tokens of width 2
  Values table = {10, 20, 30, 40}, gradient(4, kUnwritten), y(8);
  Layers::Positions positions(room, 2, 2);
  positions.bind({table.data(), gradient.data()});
  positions.forward(x.data(), 2, y.data());
  CHECK(y == Values{11, 22, 33, 44, 15, 26, 37, 48});
  positions.backward(x.data(), 2);
  CHECK(gradient == Values{6, 8, 10, 12});

  Layers::TokenMean mean(room, 2, 2);
  Values means(4);
  mean.forward(x.data(), 2, means.data());
  CHECK(means == Values{2, 3, 6, 7});
  mean.backward(means.data(), 2, y.data());
  CHECK(y == Values{1, 1.5, 1, 1.5, 3, 3.5, 3, 3.5});

  Layers::Sum(room, 2, 2).run(x.data(), y.data(), 4, y.data());
  CHECK(y == Values{2, 3.5, 4, 5.5, 8, 9.5, 10, 11.5});

  Layers::Embedding embedding(room, 3, 2, 2);
  Values words = {1, 2, 3, 4, 5, 6}, words_gradient(6, kUnwritten);
  embedding.bind({words.data(), words_gradient.data()});
  const std::vector<std::int32_t> ids = {2, 0, 2, 2};
  embedding.forward(ids.data(), 4, y.data());
  CHECK(y == Values{5, 6, 1, 2, 5, 6, 5, 6});
  embedding.backward(ids.data(), x.data(), 4);
  CHECK(words_gradient == Values{3, 4, 0, 0, 1 + 5 + 7, 2 + 6 + 8});
  const std::vector<std::int32_t> wrong = {0, 1, 2, 3};
  CHECK_THROWS_WITH(embedding.forward(wrong.data(), 4, y.data()),
                    "sample 1 of the batch has the id 3 at token 1, but an embedding of 3 rows knows 0 to 2; "
                    "check how the ids were made");
}

TEST_CASE("Dropout keeps its share, scaled, and the same elements backward") {
  TestRoom room;
  constexpr std::size_t kTokens = 7, kWidth = 1501;  // a sample is more than one piece, and not of quads
  const Layers::Dropout layer(room, kTokens, kWidth, 0.25);
  const DropoutKey key = {3, 5, 0, 2};
  const Values ones(3 * kTokens * kWidth, 1);
  Values y(ones.size(), kUnwritten), dx = ones;
  layer.forward(ones.data(), 3 * kTokens, y.data(), key);
  layer.backward(dx.data(), 3 * kTokens, dx.data(), key);
  CHECK(y == dx);
  std::size_t kept = 0;
  for (const float value : y) {
    kept += value != 0 ? 1U : 0U;
    if (value != 0) REQUIRE(value == 4.0F / 3);
  }
  // 31,521 draws: the deviation of their number is 77.
  CHECK(std::abs(static_cast<double>(kept) - 0.75 * static_cast<double>(y.size())) < 5 * 77);

  // Any other seed, step, layer or sample draws others; half of a quarter and three quarters differ.
  for (const DropoutKey& other : {DropoutKey{4, 5, 0, 2}, {3, 6, 0, 2}, {3, 5, 1, 2}, {3, 5, 0, 3}}) {
    Values different(y.size());
    layer.forward(ones.data(), 3 * kTokens, different.data(), other);
    std::size_t changed = 0;
    for (std::size_t i = 0; i < y.size(); ++i) changed += y[i] != different[i] ? 1U : 0U;
    CHECK(std::abs(static_cast<double>(changed) / static_cast<double>(y.size()) - 2 * 0.75 * 0.25) < 0.02);
  }
}

TEST_CASE("Dropout draws for a sample whatever batch it is in") {
  TestRoom room;
  const Layers::Dropout layer(room, 2, 33, 0.5);
  const Values x = random_floats(std::size_t{5} * 66, 1);
  Values whole(x.size()), parts(x.size());
  layer.forward(x.data(), 10, whole.data(), {1, 2, 100, 3});
  layer.forward(x.data(), 4, parts.data(), {1, 2, 100, 3});
  layer.forward(x.data() + 132, 6, parts.data() + 132, {1, 2, 102, 3});
  CHECK(whole == parts);
}

TEST_CASE("Dropout of nothing copies, and a share out of range is refused") {
  TestRoom room;
  const Values x = random_floats(66, 1);
  Values y(66);
  Layers::Dropout(room, 2, 33, 0).forward(x.data(), 2, y.data(), {});
  CHECK(x == y);
  for (const double share : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(Layers::Dropout(room, 2, 33, share), muster::Error);
}

TEST_CASE("Draws are a function of their key, on every machine") {
  // The words of Philox for this key, and what a share makes of one at its border.
  STATIC_REQUIRE(muster::nn::dropout_words({7, 3, 0, 5}, 9, 11) ==
                 muster::philox4x32({11, 9, 3, 0x44000005}, 7));
  constexpr DropoutShare kHalf = DropoutShare::of(0.5);
  STATIC_REQUIRE((kHalf.factor(0x7FFFFFFF) == 0 && kHalf.factor(0x80000000) == 2));
}

namespace {

void run_linear(Layers::Room& room, std::int64_t rows, std::int64_t in, std::int64_t out, const Values& x,
                const Values& dy, const std::function<void(const Values&)>& keep) {
  const auto count = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
  Values weight = random_floats(count(in, out), 3), bias = random_floats(count(out, 1), 4),
         weight_gradient(weight.size()), bias_gradient(bias.size()), y(count(rows, out)), dx(count(rows, in));
  Layers::Linear layer(room, in, out, true);
  layer.bind({weight.data(), weight_gradient.data()}, {bias.data(), bias_gradient.data()});
  layer.forward(x.data(), rows, y.data());
  layer.backward(x.data(), dy.data(), rows, dx.data());
  for (const Values& values : {y, dx, weight_gradient, bias_gradient}) keep(values);
}

/// Results and gradients of layers that sum over rows, one behind the other, with so many threads. `small`:
/// of a small linear layer, too, whose products are oneDNN's.
Values results_with(int threads, bool small) {
  TestRoom room;
  const int before = muster::nn::threads();
  muster::nn::set_threads(threads);
  constexpr std::int64_t kBatch = 5, kTokens = 19, kWidth = 36, kRows = kBatch * kTokens;
  const Values x = random_floats(static_cast<std::size_t>(3 * kRows * kWidth), 1), scale(36, 1.5F),
               dy = random_floats(x.size(), 2);
  Values results;
  const auto place = [](const Values& values) { return const_cast<float*>(values.data()); };
  const auto keep = [&](const Values& values) {
    results.insert(results.end(), values.begin(), values.end());
  };
  Layers::LayerNorm norm(room, kTokens, kWidth);
  Layers::Attention attention_layer(room, kTokens, kWidth, 3);
  room.begin(kBatch);
  Values a(36), b(36), y(dy.size());
  norm.bind({place(scale), a.data()}, {place(scale), b.data()});
  norm.forward(x.data(), kRows, y.data());
  norm.backward(x.data(), dy.data(), kRows, y.data());
  for (const Values& values : {a, b, y}) keep(values);
  attention_layer.forward(x.data(), kBatch, y.data());
  keep(y);
  attention_layer.backward(x.data(), dy.data(), kBatch, y.data());
  keep(y);
  Values p(static_cast<std::size_t>(kTokens * kWidth));
  Layers::Positions positions(room, kTokens, kWidth);
  positions.bind({p.data(), p.data()});
  positions.backward(dy.data(), kBatch);
  keep(p);
  Values words(static_cast<std::size_t>(7 * kWidth));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(kRows));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 7);
  Layers::Embedding embedding(room, 7, kTokens, kWidth);
  embedding.bind({words.data(), words.data()});
  embedding.backward(ids.data(), dy.data(), kRows);
  keep(words);
  if (small) run_linear(room, kRows, kWidth, 24, x, dy, keep);
  // Its weights are larger than a cache, and its products are ours.
  run_linear(room, 5, 1050, 1001, x, dy, keep);
  muster::nn::set_threads(before);
  return results;
}

}  // namespace

TEST_CASE("Layers over rows give the same bits with any number of threads") {
  const Values one = results_with(1, false);
  for (const int threads : {2, 3, 7}) CHECK((results_with(threads, false) == one));
  // With three threads oneDNN 2.6 gives some rows other bits on processors without AVX-512.
  CHECK((results_with(2, true) == results_with(1, true)));
}

}  // namespace rows_test
