// SPDX-License-Identifier: Apache-2.0
// rows LAYER SIZE...: reads the input, the parameters and the gradient of the result as floats from stdin,
// writes the result, the gradient of the input and those of the parameters to stdout.
#include "tests/unit/worker_sdk/nn/maps.hpp"
#include "worker_sdk/nn/cpu/layers.hpp"
#include "worker_sdk/nn/loss.hpp"

#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace {

using Layers = muster::nn::cpu::Layers;
using muster::nn::MapExtent;
using muster::nn::ParameterSlot;
using muster::test::TestMap;
using Values = std::vector<float>;
using Sizes = std::vector<std::int64_t>;

Values read(std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  if (count == 0) return values;  // no parameter: there is no place to read to
  if (std::fread(values.data(), sizeof(float), values.size(), stdin) != values.size())
    throw std::runtime_error("too few floats on stdin");
  return values;
}

void write(const Values& values) {
  std::fwrite(values.data(), sizeof(float), values.size(), stdout);
}

struct Parameter {
  explicit Parameter(std::int64_t count) : value(read(count)), gradient(value.size(), 1e30F) {}

  ParameterSlot slot() { return {value.data(), gradient.data()}; }

  Values value, gradient;
};

struct TestRoom : Layers::Room {
  explicit TestRoom(std::int64_t of_batch) : Layers::Room(muster::nn::NetworkOptions{}), batch(of_batch) {}

  /// After the layers were made.
  void begin() { Layers::Room::begin(batch); }

  const std::int64_t batch;
};

void linear(const Sizes& s) {
  const auto [in, out, bias, rows] = std::tuple(s[0], s[1], s[2] != 0, s[3]);
  TestRoom room(rows);
  Layers::Linear layer(room, in, out, bias);
  Values x = read(rows * in), y(static_cast<std::size_t>(rows * out));
  Parameter weight(in * out), shift(bias ? out : 0);
  const Values dy = read(rows * out);
  layer.bind(weight.slot(), shift.slot());
  layer.forward(x.data(), rows, y.data());
  layer.backward(x.data(), dy.data(), rows, x.data());
  for (const Values& values : {y, x, weight.gradient, shift.gradient}) write(values);
}

/// A layer without parameters whose result is like its input.
template <typename Layer>
void activation(const Sizes& s, bool from_result) {
  const auto [tokens, width, batch] = std::tuple(s[0], s[1], s[2]);
  TestRoom room(batch);
  Layer layer(room, tokens, width);
  const Values x = read(batch * tokens * width);
  Values dy = read(batch * tokens * width), y(x.size());
  layer.forward(x.data(), batch * tokens, y.data());
  layer.backward(from_result ? y.data() : x.data(), dy.data(), batch * tokens, dy.data());
  for (const Values& values : {y, dy}) write(values);
}

void layer_norm(const Sizes& s) {
  const auto [tokens, width, batch] = std::tuple(s[0], s[1], s[2]);
  TestRoom room(batch);
  Layers::LayerNorm layer(room, tokens, width);
  room.begin();
  const Values x = read(batch * tokens * width);
  Parameter scale(width), shift(width);
  Values dy = read(batch * tokens * width), y(x.size());
  layer.bind(scale.slot(), shift.slot());
  layer.forward(x.data(), batch * tokens, y.data());
  layer.backward(x.data(), dy.data(), batch * tokens, dy.data());
  for (const Values& values : {y, dy, scale.gradient, shift.gradient}) write(values);
}

void attention(const Sizes& s) {
  const auto [tokens, width, heads, batch] = std::tuple(s[0], s[1], s[2], s[3]);
  TestRoom room(batch);
  Layers::Attention layer(room, tokens, width, heads);
  room.begin();
  Values qkv = read(3 * batch * tokens * width), y(qkv.size() / 3);
  const Values dy = read(batch * tokens * width);
  layer.forward(qkv.data(), batch, y.data());
  layer.backward(qkv.data(), dy.data(), batch, qkv.data());
  for (const Values& values : {y, qkv}) write(values);
}

void positions(const Sizes& s) {
  const auto [tokens, width, batch] = std::tuple(s[0], s[1], s[2]);
  TestRoom room(batch);
  Layers::Positions layer(room, tokens, width);
  Values x = read(batch * tokens * width);
  Parameter places(tokens * width);
  const Values dy = read(batch * tokens * width);
  layer.bind(places.slot());
  layer.forward(x.data(), batch, x.data());
  layer.backward(dy.data(), batch);
  for (const Values& values : {x, dy, places.gradient}) write(values);
}

void embedding(const Sizes& s) {
  const auto [vocabulary, tokens, width, batch] = std::tuple(s[0], s[1], s[2], s[3]);
  TestRoom room(batch);
  Layers::Embedding layer(room, vocabulary, tokens, width);
  std::vector<std::int32_t> ids;
  for (const float id : read(batch * tokens)) ids.push_back(static_cast<std::int32_t>(id));
  Parameter table(vocabulary * width);
  const Values dy = read(batch * tokens * width);
  Values y(dy.size());
  layer.bind(table.slot());
  layer.forward(ids.data(), batch * tokens, y.data());
  layer.backward(ids.data(), dy.data(), batch * tokens);
  for (const Values& values : {y, table.gradient}) write(values);
}

void token_mean(const Sizes& s) {
  const auto [tokens, width, batch] = std::tuple(s[0], s[1], s[2]);
  TestRoom room(batch);
  Layers::TokenMean layer(room, tokens, width);
  const Values x = read(batch * tokens * width), dy = read(batch * width);
  Values y(dy.size()), dx(x.size());
  layer.forward(x.data(), batch, y.data());
  layer.backward(dy.data(), batch, dx.data());
  for (const Values& values : {y, dx}) write(values);
}

/// Maps travel as nhwc.
template <typename Layer>
void from_map(const Sizes& s) {
  const auto [channels, side, batch] = std::tuple(s[0], s[1], s[2]);
  TestRoom room(batch);
  const MapExtent extent = {channels, side};
  const Layer layer(room, extent);
  const std::int64_t count = batch * static_cast<std::int64_t>(extent.elements());
  const TestMap x(room.shape(extent), batch, read(count)), dx(room.shape(extent), batch);
  const Values dy = read(count);
  Values y(dy.size());
  layer.forward(x.data(), batch, y.data());
  layer.backward(dy.data(), batch, dx.data());
  for (const Values& values : {y, dx.nhwc()}) write(values);
}

void map_bias(const Sizes& s) {
  const auto [channels, side, batch] = std::tuple(s[0], s[1], s[2]);
  TestRoom room(batch);
  const MapExtent extent = {channels, side};
  Layers::MapBias layer(room, extent);
  const std::int64_t count = batch * static_cast<std::int64_t>(extent.elements());
  const TestMap x(room.shape(extent), batch, read(count));
  Parameter bias(channels);
  const TestMap dy(room.shape(extent), batch, read(count));
  layer.bind(bias.slot());
  layer.forward(x.data(), batch, x.data());
  layer.backward(dy.data(), batch);
  for (const Values& values : {x.nhwc(), dy.nhwc(), bias.gradient}) write(values);
}

void grey(const Sizes& s) {
  const auto [side, batch] = std::tuple(s[0], s[1]);
  TestRoom room(batch);
  const Values images = read(batch * side * side * 3);
  Values y(images.size() / 3);
  Layers::Grey(room, {3, side}).forward(images.data(), batch, y.data());
  write(y);
}

void squared_error(const Sizes& s) {
  const auto [samples, width] = std::tuple(static_cast<std::size_t>(s[0]), static_cast<std::size_t>(s[1]));
  const Values results = read(s[0] * s[1]), targets = read(s[0] * s[1]);
  Values gradient(results.size());
  const auto score =
      muster::nn::mean_squared_error(results.data(), targets.data(), samples, width, gradient.data());
  write({static_cast<float>(score.loss)});
  write(gradient);
}

const std::map<std::string, std::function<void(const Sizes&)>> kLayers = {
    {"linear", linear},
    {"relu", [](const Sizes& s) { activation<Layers::Relu>(s, true); }},
    {"gelu", [](const Sizes& s) { activation<Layers::Gelu>(s, false); }},
    {"layer_norm", layer_norm},
    {"attention", attention},
    {"positions", positions},
    {"embedding", embedding},
    {"token_mean", token_mean},
    {"flatten", from_map<Layers::Flatten>},
    {"tokens", from_map<Layers::Tokens>},
    {"map_bias", map_bias},
    {"grey", grey},
    {"squared_error", squared_error}};

}  // namespace

int main(int argc, char** argv) {
  try {
    Sizes sizes;
    for (int i = 2; i < argc; ++i) sizes.push_back(std::stoll(argv[i]));
    kLayers.at(argv[1])(sizes);
    return std::fflush(stdout) == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rows: %s\n", error.what());
    return 1;
  }
}
