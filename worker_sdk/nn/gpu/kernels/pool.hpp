// SPDX-License-Identifier: Apache-2.0
// Pooling of maps of images x side x side x channels.
#pragma once

#include "worker_sdk/nn/gpu/kernels/pack.hpp"

#include <cstdint>

namespace muster::nn::gpu {

/// Windows of kernel x kernel at a stride, padded: 3, 2, 1 in torchvision's stem, 2, 2, 0 in the small CNN.
struct PoolShape {
  int channels = 0;
  int side = 0;  ///< height and width of the input
  int kernel = 0;
  int stride = 0;
  int padding = 0;

  MUSTER_HD int out_side() const { return (side + 2 * padding - kernel) / stride + 1; }
};

/// `winners` gets for each element of y the place in its window, the first of equals; may be null.
template <typename T>
struct MaxPool {
  PoolShape shape;
  std::int64_t images;
  const T* x;
  T* y;
  std::uint8_t* winners;

  MUSTER_HD std::int64_t packs() const {
    return images * shape.out_side() * shape.out_side() * (shape.channels / kPack);
  }

  int blocks() const { return blocks_for(packs()); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t pack = number_of(place);
    if (pack >= packs()) return;
    const int per_pixel = shape.channels / kPack;
    const int out = shape.out_side();
    const auto channel = static_cast<int>(pack % per_pixel) * kPack;
    const std::int64_t pixel = pack / per_pixel;
    const auto column = static_cast<int>(pixel % out);
    const auto row = static_cast<int>(pixel / out % out);
    const T* image = x + pixel / out / out * shape.side * shape.side * shape.channels + channel;
    Floats best;
    std::uint8_t winner[kPack] = {};
    bool any = false;
    for (int k = 0; k < shape.kernel * shape.kernel; ++k) {
      const int r = row * shape.stride - shape.padding + k / shape.kernel;
      const int c = column * shape.stride - shape.padding + k % shape.kernel;
      if (r < 0 || c < 0 || r >= shape.side || c >= shape.side) continue;
      const Floats value = load(image + (std::int64_t{r} * shape.side + c) * shape.channels);
      for (int i = 0; i < kPack; ++i) {
        // A value that is not a number wins, so that it is not hidden from the loss.
        const bool wins = !any || !(value.v[i] <= best.v[i]);
        best.v[i] = wins ? value.v[i] : best.v[i];
        winner[i] = wins ? static_cast<std::uint8_t>(k) : winner[i];
      }
      any = true;
    }
    store(y + pack * kPack, best);
    if (winners == nullptr) return;
    for (int i = 0; i < kPack; ++i) winners[pack * kPack + i] = winner[i];
  }
};

/// The gradient of x, from that of y, which is dy + dy2 (where not null).
template <typename T>
struct MaxPoolBackward {
  PoolShape shape;
  std::int64_t images;
  const T* dy;
  const T* dy2;
  const std::uint8_t* winners;
  T* dx;

  MUSTER_HD std::int64_t packs() const { return images * shape.side * shape.side * (shape.channels / kPack); }

  int blocks() const { return blocks_for(packs()); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t pack = number_of(place);
    if (pack >= packs()) return;
    const int per_pixel = shape.channels / kPack;
    const int out = shape.out_side();
    const auto channel = static_cast<int>(pack % per_pixel) * kPack;
    const std::int64_t pixel = pack / per_pixel;
    const int c = static_cast<int>(pixel % shape.side) + shape.padding;
    const int r = static_cast<int>(pixel / shape.side % shape.side) + shape.padding;
    const std::int64_t image = pixel / shape.side / shape.side;
    Floats sum{};
    // The windows that hold this pixel.
    for (int row = first_window(r); row <= last_window(r, out); ++row)
      for (int column = first_window(c); column <= last_window(c, out); ++column) {
        const int wanted = (r - shape.stride * row) * shape.kernel + (c - shape.stride * column);
        const std::int64_t at = ((image * out + row) * out + column) * shape.channels + channel;
        const Floats g = load(dy + at);
        const Floats more = dy2 != nullptr ? load(dy2 + at) : Floats{};
        for (int i = 0; i < kPack; ++i) sum.v[i] += winners[at + i] == wanted ? g.v[i] + more.v[i] : 0.0F;
      }
    store(dx + pack * kPack, sum);
  }

 private:
  MUSTER_HD int first_window(int r) const {
    return r < shape.kernel ? 0 : (r - shape.kernel) / shape.stride + 1;
  }

  MUSTER_HD int last_window(int r, int out) const {
    return r / shape.stride < out - 1 ? r / shape.stride : out - 1;
  }
};

/// Mean of the pixels of each channel: images x channels.
template <typename T>
struct AveragePool {
  std::int64_t images;
  int pixels;
  int channels;
  const T* x;
  T* means;

  constexpr int blocks() const { return blocks_for(images * (channels / kPack)); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t pack = number_of(place);
    if (pack >= images * (channels / kPack)) return;
    const T* from = x + pack / (channels / kPack) * pixels * channels + pack % (channels / kPack) * kPack;
    Floats sum{};
    for (int p = 0; p < pixels; ++p) {
      const Floats value = load(from + std::int64_t{p} * channels);
      for (int i = 0; i < kPack; ++i) sum.v[i] += value.v[i];
    }
    const float share = 1.0F / static_cast<float>(pixels);
    for (int i = 0; i < kPack; ++i) sum.v[i] *= share;
    store(means + pack * kPack, sum);
  }
};

/// The gradient of x.
template <typename T>
struct AveragePoolBackward {
  std::int64_t images;
  int pixels;
  int channels;
  const T* means_gradient;
  T* dx;

  MUSTER_HD std::int64_t packs() const { return images * pixels * (channels / kPack); }

  int blocks() const { return blocks_for(packs()); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t pack = number_of(place);
    if (pack >= packs()) return;
    const int per_pixel = channels / kPack;
    const std::int64_t from = pack / per_pixel / pixels * per_pixel + pack % per_pixel;
    Floats g = load(means_gradient + from * kPack);
    const float share = 1.0F / static_cast<float>(pixels);
    for (int i = 0; i < kPack; ++i) g.v[i] *= share;
    store(dx + pack * kPack, g);
  }
};

}  // namespace muster::nn::gpu
