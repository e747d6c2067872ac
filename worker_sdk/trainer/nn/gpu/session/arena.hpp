// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/network.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::nn::gpu {

/// Floats before the first parameter. In the arena of gradients the first of them is the number of samples,
/// which so is summed over the ranks with the first bucket.
constexpr std::size_t kArenaHeader = 16;

/// The places of a model's parameters in an arena: in reverse order, because backward meets the last layer
/// first, each at a multiple of 16 floats, cut into buckets that are reduced one after the other. Pure.
class ArenaLayout {
 public:
  /// A bucket is closed when it reaches its bytes; the first one may be smaller, so that reducing starts
  /// early.
  ArenaLayout(const ModelSpec& spec, std::size_t first_bucket_bytes, std::size_t bucket_bytes);

  struct Bucket {
    std::size_t begin = 0;  ///< the header belongs to the first
    std::size_t end = 0;
    std::size_t parameters = 0;
  };

  std::size_t elements() const { return elements_; }

  std::size_t offset(std::size_t parameter) const { return offsets_[parameter]; }

  std::size_t bucket_of(std::size_t parameter) const { return bucket_of_[parameter]; }

  const std::vector<Bucket>& buckets() const { return buckets_; }

  /// Whether weight decay applies, one entry for each 16 floats.
  const std::vector<std::uint8_t>& decays() const { return decays_; }

 private:
  std::size_t elements_ = 0;
  std::vector<std::size_t> offsets_;
  std::vector<std::size_t> bucket_of_;
  std::vector<Bucket> buckets_;
  std::vector<std::uint8_t> decays_;
};

}  // namespace muster::nn::gpu
