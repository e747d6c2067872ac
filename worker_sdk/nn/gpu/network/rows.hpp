// SPDX-License-Identifier: Apache-2.0
// Layers of rows that look at one row, or one element, at a time. What each of them promises is said in
// nn/row_layers.hpp.
#pragma once

#include "worker_sdk/nn/gpu/network/products.hpp"

#include <cstdint>

namespace muster::nn::gpu {

/// A function of each element.
template <typename T, typename Map>
class RowMap {
 public:
  RowMap(Room& room, std::int64_t, std::int64_t width) : room_(room), width_(width) {}

  void forward(const T* x, std::int64_t rows, T* y) const {
    if (rows > 0) room_.ops.run(EachElement<T, Map>{rows * width_, x, y});
  }

  /// `kept`: what backward reads beside the gradient, x or y.
  void backward(const T* kept, const T* dy, std::int64_t rows, T* dx) const {
    if (rows > 0) room_.ops.run(EachPair<T, Map>{rows * width_, kept, dy, dx});
  }

 private:
  Room& room_;
  const std::int64_t width_;
};

/// The sum of two lists of rows.
template <typename T>
class Sum {
 public:
  Sum(Room& room, std::int64_t, std::int64_t width) : room_(room), width_(width) {}

  void run(const T* a, const T* b, std::int64_t rows, T* y) const {
    if (rows > 0) room_.ops.run(AddRows<T>{rows * width_, a, b, y});
  }

 private:
  Room& room_;
  const std::int64_t width_;
};

/// Layer norm with scale and shift. Keeps two floats for each row from forward to backward.
template <typename T>
class LayerNorm {
 public:
  LayerNorm(Room& room, std::int64_t tokens, std::int64_t width)
      : room_(room),
        width_(static_cast<int>(width)),
        mean_(room, static_cast<std::size_t>(tokens) * sizeof(float)),
        inverse_(room, static_cast<std::size_t>(tokens) * sizeof(float)) {}

  void bind(const ParameterSlot& scale, const ParameterSlot& shift) {
    scale_ = scale;
    shift_ = shift;
  }

  void forward(const T* x, std::int64_t rows, T* y) const {
    if (rows > 0)
      room_.ops.run(
          LayerNormForward<T>{rows, width_, x, scale_.value, shift_.value, y, mean_.data(), inverse_.data()});
  }

  void backward(const T* x, const T* dy, std::int64_t rows, T* dx) const {
    if (rows == 0) return;
    room_.ops.run(RowSums<T>{rows,
                             width_,
                             width_,
                             dy,
                             x,
                             {mean_.data(), inverse_.data()},
                             room_.partials,
                             shift_.gradient,
                             scale_.gradient});
    room_.ops.run(LayerNormBackward<T>{rows, width_, x, dy, scale_.value, mean_.data(), inverse_.data(), dx});
  }

 private:
  Room& room_;
  const int width_;
  const Memory<float> mean_;
  const Memory<float> inverse_;
  ParameterSlot scale_;
  ParameterSlot shift_;
};

/// Adds a row for each token of an image.
template <typename T>
class Positions {
 public:
  Positions(Room& room, std::int64_t tokens, std::int64_t width) : room_(room), period_(tokens * width) {}

  void bind(const ParameterSlot& positions) { positions_ = positions; }

  void forward(const T* x, std::int64_t batch, T* y) const {
    if (batch > 0) room_.ops.run(AddRepeated<T>{batch * period_, period_, x, positions_.value, y});
  }

  void backward(const T* dy, std::int64_t batch) const {
    if (batch > 0) sum_rows(room_, batch, period_, period_, dy, positions_.gradient);
  }

 private:
  Room& room_;
  const std::int64_t period_;
  ParameterSlot positions_;
};

/// Rows of a table by their numbers, which lie on the device. Another number than those of the vocabulary
/// gives a row of what is not a number.
template <typename T>
class Embedding {
 public:
  Embedding(Room& room, std::int64_t vocabulary, std::int64_t, std::int64_t width)
      : room_(room), vocabulary_(vocabulary), width_(static_cast<int>(width)) {}

  void bind(const ParameterSlot& table) { table_ = table; }

  void forward(const std::int32_t* ids, std::int64_t rows, T* y) const {
    if (rows > 0) room_.ops.run(EmbeddingForward<T>{{rows, vocabulary_, width_}, ids, table_.value, y});
  }

  void backward(const std::int32_t* ids, const T* dy, std::int64_t rows) const {
    if (rows > 0) room_.ops.run(EmbeddingBackward<T>{{rows, vocabulary_, width_}, ids, dy, table_.gradient});
  }

 private:
  Room& room_;
  const std::int64_t vocabulary_;
  const int width_;
  ParameterSlot table_;
};

/// Dropout. A recorded step draws by the key of the room (Room::set_dropout_key), where one was set; only the
/// number of the layer is then that of the call.
template <typename T>
class Dropout {
 public:
  Dropout(Room& room, std::int64_t tokens, std::int64_t width, double share)
      : room_(room), tokens_(tokens), elements_(tokens * width), share_(DropoutShare::of(share)) {}

  void forward(const T* x, std::int64_t rows, T* y, const DropoutKey& key) const {
    if (rows > 0)
      room_.ops.run(DropoutRows<T>{rows / tokens_, elements_, share_, key, room_.dropout_key(), x, y});
  }

  void backward(const T* dy, std::int64_t rows, T* dx, const DropoutKey& key) const {
    forward(dy, rows, dx, key);
  }

 private:
  Room& room_;
  const std::int64_t tokens_;
  const std::int64_t elements_;  ///< elements of a sample
  const DropoutShare share_;
};

}  // namespace muster::nn::gpu
