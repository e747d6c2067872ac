// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/trainer/nn/gpu/network/device_network.hpp"
#include "worker_sdk/trainer/nn/gpu/ops.hpp"
#include "worker_sdk/trainer/nn/layers.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace muster::nn::gpu {

/// The widest map that kernels take (MapSize), and so the most classes.
constexpr std::int64_t kMostChannels = 2048;

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
      : ops(options.ops),
        sum(options.sum),
        capacity_(options.capacity),
        bf16_(options.precision == Precision::bf16),
        tf32_(options.precision == Precision::tf32) {
    // The most that partial_floats() is: groups of kSumChannels channels share the blocks.
    constexpr std::size_t kBytes =
        (kSumCounters + std::size_t{2} * kSumChannels * kMaxSumBlocks) * sizeof(float);
    partials = static_cast<float*>(take(kBytes, "partial sums", &MemoryUse::workspace));
  }

  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  void* take(std::size_t bytes, const char* what, MemoryKind kind) {
    void* const memory = ops.allocate(bytes, what);
    use_.*kind += bytes;
    return memory;
  }

  void* const& add(std::size_t bytes_per_image, MemoryKind kind) {
    return places_.emplace_back(take(static_cast<std::size_t>(capacity_) * bytes_per_image, "maps", kind));
  }

  void begin(std::int64_t batch) const {
    if (batch > capacity_)
      throw Error(ErrorCode::invalid_argument,
                  "a batch of " + std::to_string(batch) +
                      " images for a network on a GPU that was made for at most " +
                      std::to_string(capacity_));
  }

  ImageFormat image_format() const { return {kPack, bf16_ ? Precision::bf16 : Precision::f32}; }

  /// Whether 32-bit floats may be rounded to TF32 in products.
  bool allows_tf32() const { return tf32_; }

  std::size_t element_bytes() const { return bf16_ ? sizeof(Bf16) : sizeof(float); }

  std::size_t map_bytes(const MapExtent& extent) const { return extent.elements() * element_bytes(); }

  MemoryUse memory() const { return use_; }

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
  MemoryUse use_;
  std::deque<void*> places_;
  const std::int64_t capacity_;
  const bool bf16_;
  const bool tf32_;
};

template <typename T>
T* allocate(Room& room, std::int64_t count, const char* what) {
  return static_cast<T*>(room.take(static_cast<std::size_t>(count) * sizeof(T), what, &MemoryUse::workspace));
}

/// The width that kernels and tensor cores like.
constexpr int padded(std::int64_t channels) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(channels < kPack ? kPack : channels)));
}

inline MapSize size_of(const MapExtent& extent, std::int64_t batch) {
  return {batch * extent.side * extent.side, static_cast<int>(extent.channels)};
}

}  // namespace muster::nn::gpu
