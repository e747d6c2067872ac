// SPDX-License-Identifier: Apache-2.0
// Between maps and rows of floats, in every format. One thread.
#pragma once

#include "worker_sdk/nn/cpu/room.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::nn::cpu {

/// y = x + bias of the channel.
class MapBias : public WorkspaceHolder {
 public:
  MapBias(Room& room, const MapExtent& extent) : shape_(room.shape(extent)) { room.add(*this); }

  /// `channels` floats.
  void bind(const ParameterSlot& bias) { bias_ = bias; }

  /// y may be x.
  void forward(const void* x, std::int64_t batch, void* y) const;
  /// Writes the gradient of the bias; that of x is dy.
  void backward(const void* dy, std::int64_t batch);

  Workspace workspace() const override { return {sums_.capacity() * sizeof(float), 0}; }

  Workspace workspace_for(std::span<const BatchSize> batches) const override {
    return {static_cast<std::size_t>(largest(batches, true) * shape_.channels) * sizeof(float), 0};
  }

 private:
  const MapShape shape_;
  ParameterSlot bias_;
  std::vector<float> sums_;  ///< of each image
};

/// A row for each image: its pixels, channel after channel, as PyTorch's flatten().
class Flatten {
 public:
  Flatten(const Room& room, const MapExtent& extent) : shape_(room.shape(extent)) {}

  void forward(const void* map, std::int64_t batch, float* rows) const;
  void backward(const float* rows_gradient, std::int64_t batch, void* map_gradient) const;

 private:
  const MapShape shape_;
};

/// A row for each pixel: its channels. Pixels are in the order height, width.
class Tokens {
 public:
  Tokens(const Room& room, const MapExtent& extent) : shape_(room.shape(extent)) {}

  void forward(const void* map, std::int64_t batch, float* rows) const;
  void backward(const float* rows_gradient, std::int64_t batch, void* map_gradient) const;

 private:
  const MapShape shape_;
};

/// A row for each image, as Room::sample_format() says that they lie: the mean of the three colours of each
/// pixel.
class Grey {
 public:
  Grey(const Room&, const MapExtent& images)
      : channels_(static_cast<std::size_t>(images.channels)),
        pixels_(static_cast<std::size_t>(images.side * images.side)) {}

  void forward(const void* images, std::int64_t batch, float* rows) const;

 private:
  const std::size_t channels_;  ///< that lie in memory for each pixel
  const std::size_t pixels_;
};

}  // namespace muster::nn::cpu
