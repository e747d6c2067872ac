// SPDX-License-Identifier: Apache-2.0
// Every row layer once, forward and backward, on any device: the same numbers must come out on each.
#pragma once

#include "tests/unit/worker_sdk/nn/gpu/values.hpp"
#include "worker_sdk/nn/gpu/network/layers.hpp"

#include <map>
#include <memory>
#include <type_traits>
#include <vector>

namespace muster::test {

struct BlockSize {
  std::int64_t batch = 2;
  std::int64_t tokens = 16;  ///< a square number
  std::int64_t width = 48;
  std::int64_t heads = 2;

  std::int64_t side() const {
    std::int64_t side = 1;
    while (side * side < tokens) ++side;
    return side;
  }
};

template <typename T>
class RowBlock {
 public:
  RowBlock(nn::gpu::Ops& ops, const BlockSize& size, nn::Precision precision)
      : ops_(ops), size_(size), room_(nn::gpu::RoomOptions{ops, size.batch, precision, {}}) {}

  /// Forward and backward; all that was computed.
  void run() {
    stream_ = 0;
    map_part();
    transformer_part();
    rest();
  }

  /// Everything that the layers wrote, in the order of their calls.
  std::vector<std::vector<float>> results() {
    std::vector<std::vector<float>> all;
    for (const Piece& piece : written_) all.push_back(piece.floats ? read<float>(piece) : read<T>(piece));
    return all;
  }

 private:
  using Layers = nn::gpu::Layers<T>;

  struct Piece {
    void* memory;
    std::size_t count;
    bool floats;
  };

  template <typename Value>
  std::vector<float> read(const Piece& piece) {
    std::vector<Value> values(piece.count);
    ops_.from_device(values.data(), piece.memory, values.size() * sizeof(Value));
    std::vector<float> result;
    for (const Value value : values) result.push_back(nn::gpu::to_float(value));
    return result;
  }

  /// Memory of the n-th call in a run, which is the same in each run.
  template <typename Value>
  Value* take(std::int64_t count) {
    auto& place = places_[stream_++];
    if (place == nullptr) place = ops_.allocate(static_cast<std::size_t>(count) * sizeof(Value), "a test");
    return static_cast<Value*>(place);
  }

  template <typename Value = T>
  Value* written(std::int64_t count) {
    const bool known = places_.contains(stream_);
    Value* const memory = take<Value>(count);
    if (!known) written_.push_back({memory, static_cast<std::size_t>(count), std::is_same_v<Value, float>});
    return memory;
  }

  template <typename Value = T>
  Value* random(std::int64_t count) {
    const bool known = places_.contains(stream_);
    const std::size_t stream = stream_;
    Value* const memory = take<Value>(count);
    if (known) return memory;
    const auto values = random_map<Value>(static_cast<std::size_t>(count), stream, 0.5F);
    ops_.to_device(memory, values.data(), values.size() * sizeof(Value));
    return memory;
  }

  nn::ParameterSlot slot(std::int64_t count) {
    nn::ParameterSlot result;
    result.value = random<float>(count);
    result.gradient = written<float>(count);
    return result;
  }

  std::int64_t rows() const { return size_.batch * size_.tokens; }

  /// A layer that is made in the first run.
  template <typename Layer, typename... Arguments>
  Layer& layer(std::size_t number, const Arguments&... arguments) {
    auto& place = layers_[number];
    if (!place) place = std::make_shared<Layer>(room_, arguments...);
    return *std::static_pointer_cast<Layer>(place);
  }

  void map_part() {
    const std::int64_t side = size_.side();
    const nn::MapExtent extent = {size_.width, side};
    const std::int64_t elements = rows() * size_.width;
    T* const map = random(elements);
    auto& bias = layer<typename Layers::MapBias>(0, extent);
    bias.bind(slot(size_.width));
    bias.forward(map, size_.batch, map_ = written(elements));
    bias.backward(map, size_.batch);
    auto& flatten = layer<typename Layers::Flatten>(1, extent);
    T* const flat = written(elements);
    flatten.forward(map_, size_.batch, flat);
    flatten.backward(flat, size_.batch, written(elements));
    auto& tokens = layer<typename Layers::Tokens>(2, extent);
    tokens.forward(map_, size_.batch, x_ = written(elements));
    tokens.backward(x_, size_.batch, written(elements));
    auto& grey = layer<typename Layers::Grey>(3, nn::MapExtent{3, side});
    grey.forward(random(rows() * nn::gpu::kPack), size_.batch, written(rows()));
  }

  void transformer_part() {
    const std::int64_t w = size_.width;
    const std::int64_t n = rows();
    auto& positions = layer<typename Layers::Positions>(4, size_.tokens, w);
    positions.bind(slot(size_.tokens * w));
    positions.forward(x_, size_.batch, x_);
    auto& norm = layer<typename Layers::LayerNorm>(5, size_.tokens, w);
    norm.bind(slot(w), slot(w));
    T* const normed = written(n * w);
    norm.forward(x_, n, normed);
    auto& in = layer<typename Layers::Linear>(6, w, 3 * w, true);
    in.bind(slot(3 * w * w), slot(3 * w));
    in.weights_changed();
    T* const qkv = written(n * 3 * w);
    in.forward(normed, n, qkv);
    auto& attention = layer<typename Layers::Attention>(7, size_.tokens, w, size_.heads);
    T* const attended = written(n * w);
    attention.forward(qkv, size_.batch, attended);
    auto& sum = layer<typename Layers::Sum>(8, size_.tokens, w);
    sum.run(x_, attended, n, attended);
    auto& gelu = layer<typename Layers::Gelu>(9, size_.tokens, w);
    T* const activated = written(n * w);
    gelu.forward(attended, n, activated);
    auto& mean = layer<typename Layers::TokenMean>(10, size_.tokens, w);
    mean.forward(activated, size_.batch, written(size_.batch * w));

    T* const gradient = written(n * w);
    mean.backward(random(size_.batch * w), size_.batch, gradient);
    gelu.backward(attended, gradient, n, gradient);
    T* const apart = written(n * 3 * w);
    attention.backward(qkv, gradient, size_.batch, apart);
    attention.backward(qkv, gradient, size_.batch, qkv);
    in.backward(normed, qkv, n, normed);
    norm.backward(x_, normed, n, normed);
    positions.backward(normed, size_.batch);
  }

  void rest() {
    const std::int64_t w = size_.width;
    const std::int64_t n = rows();
    constexpr std::int64_t kWords = 11;
    std::vector<std::int32_t> words(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::int32_t>(i * i % kWords);
    const bool known = places_.contains(stream_);
    auto* const ids = take<std::int32_t>(n);
    if (!known) ops_.to_device(ids, words.data(), words.size() * sizeof(std::int32_t));
    auto& embedding = layer<typename Layers::Embedding>(11, kWords, size_.tokens, w);
    embedding.bind(slot(kWords * w));
    T* const x = written(n * w);
    embedding.forward(ids, n, x);
    embedding.backward(ids, x, n);
    auto& relu = layer<typename Layers::Relu>(12, size_.tokens, w);
    T* const y = written(n * w);
    relu.forward(x, n, y);
    relu.backward(y, x, n, x);
    auto& dropout = layer<typename Layers::Dropout>(13, size_.tokens, w, 0.3);
    dropout.forward(y, n, y, {7, 5, 3, 1});
    auto& linear = layer<typename Layers::Linear>(14, w, std::int64_t{10}, false);
    linear.bind(slot(10 * w), {});
    linear.weights_changed();
    T* const outputs = written(n * 10);
    linear.forward(y, n, outputs);
    linear.backward(y, outputs, n, written(n * w));
    auto& head = layer<typename Layers::Head>(15, w, std::int64_t{10});
    head.bind(slot(10 * w), slot(10));
    head.weights_changed();
    head.forward(y, size_.batch, written<float>(size_.batch * 10));
    head.backward(y, random<float>(size_.batch * 10), size_.batch, written(size_.batch * w));
  }

  nn::gpu::Ops& ops_;
  const BlockSize size_;
  nn::gpu::Room room_;
  std::size_t stream_ = 0;
  std::map<std::size_t, void*> places_;
  std::map<std::size_t, std::shared_ptr<void>> layers_;
  std::vector<Piece> written_;
  T* map_ = nullptr;
  T* x_ = nullptr;
};

}  // namespace muster::test
