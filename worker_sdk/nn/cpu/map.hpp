// SPDX-License-Identifier: Apache-2.0
// Feature maps: their shape, how they lie in memory, the memory itself.
#pragma once

#include "worker_sdk/nn/cpu/map_kernels.hpp"
#include "worker_sdk/nn/cpu/onednn.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::nn::cpu {

/// The layout of all maps of one network, the one in which convolutions are fastest, and the type of an
/// element.
struct MapFormat {
  /// Blocks of 16 channels, each block's pixels one after the other (nChw16c), instead of all channels of a
  /// pixel side by side (nhwc).
  bool blocked = false;
  bool bf16 = false;

  Tag tag() const { return blocked ? Tag::nChw16c : Tag::nhwc; }

  dnnl::memory::data_type type() const { return bf16 ? dnnl::memory::data_type::bf16 : kFloat; }

  std::size_t element_bytes() const { return bf16 ? 2 : 4; }
};

/// Maps of `channels` (a multiple of kLanes) and side x side pixels for each image.
struct MapShape {
  std::int64_t channels = 0;
  std::int64_t side = 0;
  MapFormat format;

  std::size_t pixels() const { return static_cast<std::size_t>(side * side); }

  std::size_t elements(std::int64_t batch) const {
    return static_cast<std::size_t>(batch * channels) * pixels();
  }

  std::size_t bytes(std::int64_t batch) const { return elements(batch) * format.element_bytes(); }

  /// The pieces of a map that the kernels take: a block of channels of one image, or all its channels.
  Strip strip() const { return {pixels(), format.blocked ? kLanes : static_cast<std::size_t>(channels)}; }

  std::size_t strips_per_image() const {
    return format.blocked ? static_cast<std::size_t>(channels) / kLanes : 1;
  }
};

/// Uninitialised memory that grows and never shrinks, 64-byte aligned, in huge pages where the kernel gives
/// them: maps are walked from end to end, and the misses in the page tables would show. Throws
/// std::bad_alloc.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Makes room for `bytes` bytes. Contents are lost when the memory grows.
  void reserve(std::size_t bytes);

  std::size_t bytes() const { return bytes_; }

  /// What reserve(bytes) takes.
  static std::size_t whole_pages(std::size_t bytes);

  template <typename T = void>
  T* data() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace muster::nn::cpu
