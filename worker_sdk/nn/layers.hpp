// SPDX-License-Identifier: Apache-2.0
// What models are made of. A model is written once, over a set of layers: cpu::Layers (nn/cpu/layers.hpp)
// computes them on this machine's processors, gpu::Layers (nn/gpu/network/layers.hpp) on a device.
#pragma once

#include "worker_sdk/nn/description.hpp"
#include "worker_sdk/nn/network.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::nn {

inline constexpr std::int64_t kImageSide = 32;
inline constexpr std::int64_t kColours = 3;

/// Maps of one image: `channels` of side x side pixels.
struct MapExtent {
  std::int64_t channels = 0;
  std::int64_t side = 0;

  std::size_t elements() const { return static_cast<std::size_t>(channels * side * side); }
};

/// A convolution without bias over square maps, padded with zeros.
struct ConvolutionSize {
  std::int64_t in = 0;  ///< channels
  std::int64_t out = 0;
  std::int64_t side = 0;  ///< height and width of the input
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = kernel / 2;
  /// Whether its input are the images, whose gradient nobody wants.
  bool of_images = in == kColours;

  MapExtent result() const { return {out, (side + 2 * padding - kernel) / stride + 1}; }

  /// Floating-point operations for an image, a multiplication and an addition counted as two.
  double operations() const {
    return 2.0 * static_cast<double>(in * kernel * kernel) * static_cast<double>(result().elements());
  }
};

/// The reader of a pooled map: the next convolution, or a linear layer, whose inputs are in the order height,
/// width, channels.
enum class PooledTo { map, features };

/// What memory is counted as: a member of MemoryUse.
using MemoryKind = std::size_t MemoryUse::*;

/// What all layers of one model share. It is made first and outlives them.
template <class R>
concept LayerRoom = requires(R& room, const R& fixed, std::int64_t batch, float* values, const void* data,
                             std::size_t bytes, MemoryKind kind, const MapExtent& extent, const Input& input,
                             const DropoutKey& key, std::vector<char>& copy,
                             std::span<const BatchSize> batches) {
  /// Memory of `bytes` for each image of a batch: where it is now (see Memory).
  { room.add(bytes, kind) } -> std::same_as<void* const&>;
  /// Activations that are added from now on lie in the memory that all segments share, from its beginning.
  room.begin_segment();
  /// Those that are added from now on have memory of their own again. Not before it does data() of a Memory
  /// in a segment hold.
  room.end_segments();
  /// Before each forward(): from now on there is memory for `batch` images. Its contents may be lost.
  room.begin(batch);
  /// The form of the samples that the first layer reads.
  { fixed.sample_format(input) } -> std::same_as<SampleFormat>;
  /// Bytes of an element of a map, and of the maps of an image.
  { fixed.element_bytes() } -> std::same_as<std::size_t>;
  { fixed.map_bytes(extent) } -> std::same_as<std::size_t>;
  /// What the layers have taken so far, will have taken, and what add() was asked for in all.
  { fixed.memory() } -> std::same_as<MemoryUse>;
  { fixed.memory_for(batches) } -> std::same_as<MemoryUse>;
  { fixed.bytes_per_sample(kind) } -> std::same_as<std::size_t>;
  /// What dropout draws from: for calls that are recorded, from where they read it when they are launched.
  room.set_dropout_key(key);
  /// Copies, from memory that does not overlap.
  fixed.copy(values, data, bytes);
  /// Writes zeros.
  fixed.clear(values, bytes);
  /// `data` where the host can read it: itself, or copied to `copy`, which waits for the device.
  { fixed.on_host(data, bytes, copy) } -> std::same_as<const void*>;
};

/// Memory for each image of a batch, in a room.
template <typename T>
class Memory {
 public:
  template <LayerRoom Room>
  Memory(Room& room, std::size_t bytes_per_sample, MemoryKind kind = &MemoryUse::activations)
      : place_(room.add(bytes_per_sample, kind)) {}

  T* data() const { return static_cast<T*>(place_); }

 private:
  void* const& place_;
};

/// A set of layers. `Element` is the type of a map's element (void where a set chooses it at run time),
/// `Feature` that of what linear layers read, `Sign` holds bits, one for each element of a map, set where it
/// is positive. Maps lie as the set likes it; features are batch x inputs, logits batch x classes floats.
///
/// Layers hold no maps: they are told where to read and write. A gradient may be written where the map was
/// that is read for the last time in that call. With a batch of 0 they do nothing, unless they say otherwise.
/// Gradients of parameters are overwritten, with the sums over the samples.
template <class L>
concept LayerSet = LayerRoom<typename L::Room> &&
    requires(typename L::Room& room, std::int64_t batch, Mode mode, const ParameterSlot& slot,
             float* statistics, const typename L::Element* x, typename L::Element* y, typename L::Sign* signs,
             const typename L::Feature* features, typename L::Feature* result, float* logits,
             std::int64_t count, const MapExtent& extent, const ConvolutionSize& size, PooledTo to) {
  requires requires(typename L::Convolution & layer) {
    (typename L::Convolution(room, size));
    layer.bind(slot);
    layer.weights_changed();
    layer.forward(x, batch, y);
    layer.backward_weights(x, x, batch);  // input, gradient of the result
    layer.backward_data(x, batch, y);     // gradient of the result, gradient of the input
  };

  /// Batch norm: y = max(0, norm(x) + addend), where the addend may be null, or pass a norm of its own.
  /// With statistics over all ranks, measure() in Mode::train and backward_sums() exchange them for a
  /// batch of 0, too.
  requires requires(typename L::Norm & layer, const typename L::Norm* other,
                    const typename L::NormGradient& gradient) {
    (typename L::Norm(room, extent));
    layer.bind(slot, slot, statistics, statistics);  // scale, shift, running mean and variance
    /// Takes the statistics of x, or in Mode::evaluate the running ones.
    layer.measure(x, batch, mode);
    /// `signs` are those of y, and may be null.
    layer.apply(x, x, other, y, signs, batch);
    /// {x, dy, dy2, signs}: the gradient of y is dy + dy2 (where not null), 0 where `signs` (where not
    /// null) has no bit.
    (typename L::NormGradient{x, x, x, signs});
    /// Gradients of scale and shift; writes the gradient of the sum before ReLU where not null.
    layer.backward_sums(gradient, y, batch);
    /// After it: the gradient of x, which may be where x is.
    layer.backward(gradient, y, batch);
  };

  /// Maximum over windows of 3 x 3 at stride 2, padded by 1.
  requires requires(typename L::MaxPool & layer) {
    (typename L::MaxPool(room, extent));
    layer.forward(x, batch, mode, y);
    layer.backward(x, x, batch, y);  // two parts of a gradient, the second may be null
  };

  /// Mean over the pixels of a map. Not for a batch of 0, as all layers below.
  requires requires(typename L::AveragePool & layer) {
    (typename L::AveragePool(room, extent));
    layer.forward(x, batch, result);
    layer.backward(features, batch, y);
  };

  /// max(0, bias + maximum over windows of 2 x 2 at stride 2).
  requires requires(typename L::BiasPool & layer) {
    (typename L::BiasPool(room, extent, to));
    layer.bind(slot);
    layer.forward(x, batch, y);
    layer.backward(x, batch, y);
  };

  /// A linear layer with ReLU.
  requires requires(typename L::Hidden & layer) {
    (typename L::Hidden(room, count, count));
    layer.bind(slot, slot);
    layer.weights_changed();
    layer.forward(features, batch, result);
    layer.backward(features, features, result, batch, result);  // x, y, dy (overwritten), batch, dx
  };

  /// The linear layer whose results are the logits.
  requires requires(typename L::Head & layer) {
    (typename L::Head(room, count, count));
    layer.bind(slot, slot);
    layer.weights_changed();
    layer.forward(features, batch, logits);
    layer.backward(features, logits, batch, result);  // x, gradient of the logits, batch, dx
  };
};

}  // namespace muster::nn
