// SPDX-License-Identifier: Apache-2.0
// Layers between maps and rows, and the bias of a map. What each of them promises is said in
// nn/row_layers.hpp.
#pragma once

#include "worker_sdk/nn/gpu/network/products.hpp"

#include <cstdint>
#include <string>

namespace muster::nn::gpu {

/// The mean over the tokens of an image.
template <typename T>
class TokenMean {
 public:
  TokenMean(Room& room, std::int64_t tokens, std::int64_t width)
      : room_(room),
        tokens_(static_cast<int>(tokens)),
        width_(whole_packs(width, "mean over tokens of width")) {}

  void forward(const T* x, std::int64_t batch, T* y) const {
    if (batch > 0) room_.ops.run(AveragePool<T>{batch, tokens_, width_, x, y});
  }

  void backward(const T* dy, std::int64_t batch, T* dx) const {
    if (batch > 0) room_.ops.run(AveragePoolBackward<T>{batch, tokens_, width_, dy, dx});
  }

 private:
  Room& room_;
  const int tokens_;
  const int width_;
};

/// A map as one row for each image, channel after channel.
template <typename T>
class Flatten {
 public:
  Flatten(Room& room, const MapExtent& extent)
      : room_(room),
        pixels_(static_cast<int>(extent.side * extent.side)),
        channels_(whole_packs(extent.channels, "flattened map of channels")) {}

  void forward(const T* map, std::int64_t batch, T* y) const {
    if (batch > 0) room_.ops.run(TransposeImages<T>{batch, pixels_, channels_, map, y});
  }

  void backward(const T* dy, std::int64_t batch, T* map_gradient) const {
    if (batch > 0) room_.ops.run(TransposeImages<T>{batch, channels_, pixels_, dy, map_gradient});
  }

 private:
  Room& room_;
  const int pixels_;
  const int channels_;
};

/// A map as one row for each pixel, which is how it lies.
template <typename T>
class Tokens {
 public:
  Tokens(Room& room, const MapExtent& extent)
      : room_(room),
        pixels_(extent.side * extent.side),
        channels_(whole_packs(extent.channels, "token of a map of channels")) {}

  void forward(const T* map, std::int64_t batch, T* y) const { copy(map, batch, y); }

  void backward(const T* dy, std::int64_t batch, T* map_gradient) const { copy(dy, batch, map_gradient); }

 private:
  void copy(const T* from, std::int64_t batch, T* to) const {
    if (batch > 0 && from != to)
      room_.ops.run(CopyRows<T>{batch * pixels_, channels_, from, channels_, to, channels_});
  }

  Room& room_;
  const std::int64_t pixels_;
  const int channels_;
};

/// The mean of the colours of each pixel.
template <typename T>
class Grey {
 public:
  Grey(Room& room, const MapExtent& images) : room_(room), pixels_(images.side * images.side) {
    if (images.channels != kColours)
      throw Error(ErrorCode::unsupported, "grey is the mean of " + std::to_string(kColours) +
                                              " colours, and these images have " +
                                              std::to_string(images.channels));
  }

  void forward(const T* images, std::int64_t batch, T* y) const {
    if (batch > 0) room_.ops.run(GreyPixels<T>{batch * pixels_, images, y});
  }

 private:
  Room& room_;
  const std::int64_t pixels_;
};

/// Adds a bias to each channel of a map, in place.
template <typename T>
class MapBias {
 public:
  MapBias(Room& room, const MapExtent& extent)
      : room_(room),
        pixels_(extent.side * extent.side),
        channels_(whole_packs(extent.channels, "bias of a map of channels")) {}

  void bind(const ParameterSlot& bias) { bias_ = bias; }

  void forward(const T* x, std::int64_t batch, T* y) const {
    if (batch > 0) room_.ops.run(AddRepeated<T>{batch * pixels_ * channels_, channels_, x, bias_.value, y});
  }

  void backward(const T* dy, std::int64_t batch) const {
    if (batch > 0) sum_rows(room_, batch * pixels_, channels_, channels_, dy, bias_.gradient);
  }

 private:
  Room& room_;
  const std::int64_t pixels_;
  const int channels_;
  ParameterSlot bias_;
};

}  // namespace muster::nn::gpu
