// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/nn/gpu/network/device_network.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"
#include "worker_sdk/nn/layers.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace muster::nn::gpu {

/// The widest map that kernels of maps take (MapSize).
constexpr std::int64_t kMostChannels = 2048;

/// The width that kernels and tensor cores like.
constexpr int padded(std::int64_t channels) {
  return static_cast<int>((channels + kPack - 1) / kPack) * kPack;
}

struct RoomOptions {
  Ops& ops;
  std::int64_t capacity;  ///< largest batch
  Precision precision = Precision::f32;
  /// Sums over all ranks, in place, for batch norm; empty: over this rank alone.
  DeviceSum sum;
};

/// The device and the memory that all layers of a model share. Memory is for batches up to the capacity.
class Room {
 public:
  explicit Room(const RoomOptions& options)
      : ops(options.ops), sum(options.sum), capacity_(options.capacity), precision_(options.precision) {
    // Groups of kSumChannels channels share the blocks, so that no map takes more than one group of many
    // rows.
    constexpr std::size_t kBytes = partial_floats({std::int64_t{1} << 40, kSumChannels}) * sizeof(float);
    static_assert(kBytes == (kSumCounters + std::size_t{2} * kSumChannels * kMaxSumBlocks) * sizeof(float));
    partials = static_cast<float*>(take(kBytes, "partial sums", &MemoryUse::workspace));
  }

  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  void* take(std::size_t bytes, const char* what, MemoryKind kind) {
    void* const memory = ops.allocate(bytes, what);
    use_.*kind += bytes;
    return memory;
  }

  void* const& add(std::size_t bytes_per_sample, MemoryKind kind) {
    per_image_.*kind += bytes_per_sample;
    const std::size_t bytes = static_cast<std::size_t>(capacity_) * bytes_per_sample;
    if (!in_segment_ || kind != &MemoryUse::activations)
      return places_.emplace_back(take(bytes, "maps", kind));
    constexpr std::size_t kAlignment = 256;  // as that of the device's own
    void*& place = places_.emplace_back(nullptr);
    shared_.push_back({place, segment_end_});
    segment_end_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    largest_segment_ = std::max(largest_segment_, segment_end_);
    return place;
  }

  void begin_segment() {
    in_segment_ = true;
    segment_end_ = 0;
  }

  void end_segments() {
    in_segment_ = false;
    if (shared_.empty()) return;
    char* const memory = static_cast<char*>(take(largest_segment_, "maps", &MemoryUse::activations));
    for (const Shared& one : shared_) one.place = memory + one.offset;
    shared_.clear();
  }

  void begin(std::int64_t batch) const {
    if (batch > capacity_)
      throw Error(ErrorCode::invalid_argument,
                  "a batch of " + std::to_string(batch) +
                      " images for a network on a GPU that was made for at most " +
                      std::to_string(capacity_));
  }

  SampleFormat sample_format(const Input& input) const {
    const Precision type = precision_ == Precision::tf32 ? Precision::f32 : precision_;
    switch (input.kind) {
      case InputKind::images:
        return {padded(input.channels), type, input.side};
      case InputKind::features:
        return {input.channels, type, 1};
      default:
        return {input.channels, Precision::f32, 1};
    }
  }

  /// The key of the steps from now on, for dropout in steps that are recorded. Not while one is recorded.
  void set_dropout_key(const DropoutKey& key) {
    if (dropout_key_ == nullptr)
      dropout_key_ = static_cast<DropoutKey*>(take(sizeof(key), "a dropout key", &MemoryUse::workspace));
    ops.run(SetDropoutKey{key, dropout_key_});
  }

  /// On the device; null before the first one is set.
  const DropoutKey* dropout_key() const { return dropout_key_; }

  /// Whether 32-bit floats may be rounded to TF32 in products.
  bool allows_tf32() const { return precision_ == Precision::tf32; }

  std::size_t element_bytes() const { return bytes_of(precision_); }

  Precision precision() const { return precision_; }

  /// Maps have padded() channels in memory; extents say the channels that there are without.
  std::size_t map_bytes(const MapExtent& extent) const {
    return MapExtent{padded(extent.channels), extent.side}.elements() * element_bytes();
  }

  MemoryUse memory() const { return use_; }

  /// All but what grows with the capacity stays as it is.
  MemoryUse memory_for(std::span<const BatchSize> batches) const {
    std::int64_t most = 0;
    for (const BatchSize& batch : batches) most = std::max(most, batch.samples);
    MemoryUse use = use_;
    for (const MemoryKind kind : {&MemoryUse::activations, &MemoryUse::workspace})
      use.*kind = use.*kind - static_cast<std::size_t>(capacity_) * (per_image_.*kind) +
                  static_cast<std::size_t>(most) * (per_image_.*kind);
    return use;
  }

  std::size_t bytes_per_sample(MemoryKind kind) const { return per_image_.*kind; }

  /// Bits stay as they are: in the end there may be a single number of 16 bits.
  void copy(void* to, const void* from, std::size_t bytes) const {
    const auto floats = static_cast<std::int64_t>(bytes / sizeof(float));
    if (floats > 0)
      ops.run(AddGradients{{0, floats}, static_cast<const float*>(from), false, static_cast<float*>(to)});
    if (bytes % sizeof(float) == 0) return;
    const std::int64_t last = 2 * floats;
    ops.run(CopyRows<Bf16>{1, 1, static_cast<const Bf16*>(from) + last, 1, static_cast<Bf16*>(to) + last, 1});
  }

  void clear(void* memory, std::size_t bytes) const { ops.clear(memory, bytes); }

  const void* on_host(const void* data, std::size_t bytes, std::vector<char>& copy) const {
    copy.resize(bytes);
    if (bytes > 0) ops.from_device(copy.data(), data, bytes);
    return copy.data();
  }

  Ops& ops;
  const DeviceSum sum;
  float* partials = nullptr;  ///< partial sums per channel, for one layer at a time

 private:
  /// A place in the memory that all segments share.
  struct Shared {
    void*& place;
    std::size_t offset;
  };

  MemoryUse use_;
  MemoryUse per_image_;
  std::deque<void*> places_;
  std::vector<Shared> shared_;  ///< until there is that memory
  bool in_segment_ = false;
  std::size_t segment_end_ = 0;
  std::size_t largest_segment_ = 0;
  DropoutKey* dropout_key_ = nullptr;
  const std::int64_t capacity_;
  const Precision precision_;
};

template <typename T>
T* allocate(Room& room, std::int64_t count, const char* what) {
  return static_cast<T*>(room.take(static_cast<std::size_t>(count) * sizeof(T), what, &MemoryUse::workspace));
}

[[noreturn]] inline void refuse_width(std::int64_t width, const char* what, const std::string& wanted) {
  throw Error(ErrorCode::unsupported, "on a GPU there is no " + std::string(what) + " " +
                                          std::to_string(width) + "; give " + wanted +
                                          ", or train on the CPU");
}

/// `channels` of a layer whose kernels move eight at once. `what` is the layer, as "a bias of width".
inline int whole_packs(std::int64_t channels, const char* what) {
  if (channels < kPack || channels % kPack != 0) refuse_width(channels, what, "a multiple of 8");
  return static_cast<int>(channels);
}

/// `channels` of a layer of maps.
inline int map_channels(std::int64_t channels, const char* what) {
  if (channels < kPack || channels > kMostChannels ||
      !std::has_single_bit(static_cast<std::uint64_t>(channels)))
    refuse_width(channels, what, "a power of two from 8 to " + std::to_string(kMostChannels));
  return static_cast<int>(channels);
}

inline MapSize size_of(const MapExtent& extent, std::int64_t batch) {
  return {batch * extent.side * extent.side, static_cast<int>(extent.channels)};
}

}  // namespace muster::nn::gpu
