// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/cpu/map.hpp"
#include "worker_sdk/trainer/nn/layers.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace muster::nn::cpu {

class Convolution;

/// What the layers of a model share on this machine's processors: oneDNN, the format of all maps, and the
/// memory, which grows with the batch.
class Room {
 public:
  /// Maps are in the format that is fastest here, unless one is given.
  explicit Room(const NetworkOptions& options);
  Room(const NetworkOptions& options, const MapFormat& format);
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  const std::shared_ptr<const Runtime>& runtime() const { return runtime_; }

  StatisticsExchange* exchange() const { return options_.sync_batch_norm; }

  const MapFormat& format() const { return format_; }

  bool keeps_weight_copies() const { return options_.keep_weight_copies; }

  MapShape shape(const MapExtent& extent) const { return {extent.channels, extent.side, format_}; }

  void* const& add(std::size_t bytes_per_image, MemoryKind kind);

  void begin_segment() { segment_ = ++segments_; }

  void end_segments() { segment_ = 0; }

  /// Counts the layer's workspace; the layer may not move.
  void add(const Convolution& layer) { convolutions_.push_back(&layer); }

  void begin(std::int64_t batch);

  void set_dropout_key(const DropoutKey&) {}  ///< layers get it with each call

  ImageFormat image_format(const Input& input) const {
    return {input.channels, Precision::f32, input.kind == InputKind::images ? input.side : 1};
  }

  std::size_t element_bytes() const { return format_.element_bytes(); }

  std::size_t map_bytes(const MapExtent& extent) const { return shape(extent).bytes(1); }

  MemoryUse memory() const;

  std::size_t bytes_per_image(MemoryKind kind) const;
  void copy(void* to, const void* from, std::size_t bytes) const;
  void clear(void* memory, std::size_t bytes) const;

  const void* on_host(const void* data, std::size_t, std::vector<char>&) const { return data; }

 private:
  struct Place {
    std::size_t bytes_per_image = 0;
    MemoryKind kind = nullptr;
    std::size_t segment = 0;  ///< 0: it has a buffer of its own
    Buffer buffer;
    void* data = nullptr;
  };

  const NetworkOptions options_;
  const MapFormat format_;
  const std::shared_ptr<const Runtime> runtime_;
  std::deque<Place> places_;
  Buffer shared_;            ///< by all segments
  std::size_t segment_ = 0;  ///< that is being built
  std::size_t segments_ = 0;
  std::vector<const Convolution*> convolutions_;
};

}  // namespace muster::nn::cpu
