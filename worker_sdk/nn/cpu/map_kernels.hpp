// SPDX-License-Identifier: Apache-2.0
// The loops over feature maps that are not convolutions: what batch norm, ReLU and the residual sum do to a
// map, forward and backward. They wait for memory, so each pass does all that can be done on the way.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::nn::cpu {

/// Channels that one vector holds, and that one word of signs covers.
inline constexpr std::size_t kLanes = 16;

/// A piece of a map: `rows` pixels, each `width` channels side by side; `width` is a multiple of kLanes.
struct Strip {
  std::size_t rows = 0;
  std::size_t width = 0;
};

/// Arguments by channel point at the first channel of the strip. Maps are f32 or bf16 (see map_kernels()).
struct ForwardArgs {
  const void* x = nullptr;
  const float* scale = nullptr;
  const float* shift = nullptr;
  /// A second map that is added, or null: addend_scale * addend + addend_shift, where both are null for 1 and
  /// 0.
  const void* addend = nullptr;
  const float* addend_scale = nullptr;
  const float* addend_shift = nullptr;
  void* y = nullptr;
  /// One bit per element of y, set where it is positive; may be null.
  std::uint16_t* signs = nullptr;
};

struct BackwardArgs {
  const void* x = nullptr;
  /// The gradient of y is dy + dy2 (where not null), 0 where `signs` (where not null) has no bit.
  const void* dy = nullptr;
  const void* dy2 = nullptr;
  const std::uint16_t* signs = nullptr;
};

/// One image's group of kLanes channels: `side` x `side` pixels, the pixels of x so many elements apart,
/// those of the result likewise.
struct PoolPlane {
  std::size_t side = 0;
  std::size_t pitch = 0;
  std::size_t pooled_pitch = 0;
};

struct PoolKernels {
  /// Maximum over windows of 3 x 3 at stride 2, padded by 1. `winners` (may be null) gets the place in the
  /// window, 0 to 8; the first of equals.
  void (*forward3)(const PoolPlane&, const void* x, void* y, std::uint8_t* winners);
  /// dx from dy + dy2 (where not null).
  void (*backward3)(const PoolPlane&, const void* dy, const void* dy2, const std::uint8_t* winners, void* dx);
  /// max(0, bias + maximum over windows of 2 x 2 at stride 2). `winners` gets the place, 0 to 3, or 4 where
  /// the result is 0. With _flat, the result is f32 in either case.
  void (*forward2)(const PoolPlane&, const void* x, const float* bias, void* y, std::uint8_t* winners);
  void (*forward2_flat)(const PoolPlane&, const void* x, const float* bias, void* y, std::uint8_t* winners);
  /// dx, and the sum over the plane of the bias's gradient.
  void (*backward2)(const PoolPlane&, const void* dy, const std::uint8_t* winners, void* dx, float* bias);
  void (*backward2_flat)(const PoolPlane&, const void* dy, const std::uint8_t* winners, void* dx,
                         float* bias);
  /// Mean over the pixels of a plane, and the way back: a share of `means` to each of them.
  void (*mean)(std::size_t pixels, std::size_t pitch, const void* x, float* means);
  void (*spread)(std::size_t pixels, std::size_t pitch, const float* means, void* dx);
};

/// A channel group of one image: `pixels` of kLanes channels, `pitch` elements apart.
struct GroupPlane {
  std::size_t pixels = 0;
  std::size_t pitch = 0;
};

/// What stands between maps and rows of floats.
struct GroupKernels {
  /// y = x + bias; y may be x.
  void (*add_bias)(const GroupPlane&, const void* x, const float* bias, void* y);
  /// The sums over the pixels.
  void (*sum)(const GroupPlane&, const void* x, float* sums);
  /// Pixel after pixel, `row_pitch` floats apart, and back.
  void (*to_rows)(const GroupPlane&, const void* x, std::size_t row_pitch, float* rows);
  void (*from_rows)(const GroupPlane&, const float* rows, std::size_t row_pitch, void* x);
  /// Channel after channel, and back.
  void (*to_channels)(const GroupPlane&, const void* x, float* channels);
  void (*from_channels)(const GroupPlane&, const float* channels, void* x);
};

struct MapKernels {
  /// Computes for each channel the sum, and the sum of squared distances from the strip's own mean (in this
  /// way nothing cancels).
  void (*statistics)(const Strip&, const void* x, float* sum, float* squares);
  /// y = max(0, scale * x + shift + addend)
  void (*forward)(const Strip&, const ForwardArgs&);
  /// Computes for each channel the sums of g, the gradient of y before the ReLU, and of g * (x - mean).
  /// Writes g to `out` where that is not null; it may be dy.
  void (*backward_sums)(const Strip&, const BackwardArgs&, const float* mean, float* sum, float* products,
                        void* out);
  /// dx = by_gradient * g + by_x * x + constant; dx may be x.
  void (*backward)(const Strip&, const BackwardArgs&, const float* by_gradient, const float* by_x,
                   const float* constant, void* dx);
  PoolKernels pool;
  GroupKernels group;
};

/// The kernels for maps of 32-bit floats or of bf16, with the best instructions that may be used here
/// (at_least()).
const MapKernels& map_kernels(bool bf16);

namespace kernels {
const MapKernels& base(bool bf16);
const MapKernels& avx2(bool bf16);
const MapKernels& avx512(bool bf16);
}  // namespace kernels

}  // namespace muster::nn::cpu
