// SPDX-License-Identifier: Apache-2.0
// What all models have in common, whatever they are computed on.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/trainer/nn/layers.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace muster::nn {

/// The result of a batch norm with ReLU, and where it is positive.
template <LayerSet Layers>
struct Activation {
  Activation(typename Layers::Room& room, const MapExtent& extent)
      : y(room, room.map_bytes(extent)), signs(room, extent.elements() / 8) {}

  const Memory<typename Layers::Element> y;
  const Memory<typename Layers::Sign> signs;
};

/// Whether none of them is an infinity or not a number. Elements of two bytes are bf16, others floats.
inline bool all_finite(const void* values, std::size_t count, std::size_t element_bytes) {
  if (element_bytes == sizeof(float)) {
    const auto* floats = static_cast<const float*>(values);
    return std::all_of(floats, floats + count, [](float v) { return std::isfinite(v); });
  }
  // An exponent of all ones is an infinity or not a number.
  const auto* bits = static_cast<const std::uint16_t*>(values);
  return std::all_of(bits, bits + count, [](std::uint16_t b) { return (b & 0x7F80U) != 0x7F80U; });
}

/// A network over a set of layers, but for its layers.
template <LayerSet Layers>
class Model : public Network {
 public:
  const ModelSpec& spec() const final { return spec_; }

  ImageFormat image_format() const final { return room_.image_format(); }

  MemoryUse memory() const final { return room_.memory(); }

 protected:
  using Element = typename Layers::Element;

  Model(ModelSpec spec, const typename Layers::Options& options) : spec_(std::move(spec)), room_(options) {}

  /// The first part of bind().
  void keep(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) {
    if (parameters.size() != spec_.parameters.size() || buffers.size() != spec_.buffers.size())
      throw Error(ErrorCode::invalid_argument,
                  spec_.name + " has " + std::to_string(spec_.parameters.size()) + " parameters and " +
                      std::to_string(spec_.buffers.size()) + " buffers, but " +
                      std::to_string(parameters.size()) + " and " + std::to_string(buffers.size()) +
                      " were bound; pass one place for each entry of spec()");
    slots_.assign(parameters.begin(), parameters.end());
  }

  /// The first part of forward().
  void begin(const void* images, std::int64_t batch) {
    room_.begin(batch);
    images_ = static_cast<const Element*>(images);
    batch_ = batch;
  }

  /// The gradients of a batch of 0.
  void clear_gradients() {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      room_.clear(slots_[i].gradient, spec_.parameters[i].elements() * sizeof(float));
  }

  /// The layer that a parameter belongs to, as its name says.
  std::string layer_of(std::size_t parameter) const {
    const std::string& name = spec_.parameters[parameter].name;
    return name.substr(0, name.rfind('.'));
  }

  /// Whether a result of the last forward() is finite.
  bool finite(const void* values, std::size_t per_image, std::size_t element_bytes) const {
    const std::size_t count = static_cast<std::size_t>(batch_) * per_image;
    std::vector<char> copy;
    return all_finite(room_.on_host(values, count * element_bytes, copy), count, element_bytes);
  }

  const ModelSpec spec_;
  typename Layers::Room room_;
  std::vector<ParameterSlot> slots_;
  const Element* images_ = nullptr;
  std::int64_t batch_ = 0;
};

}  // namespace muster::nn
