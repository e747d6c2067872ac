// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/cpu/onednn.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::nn::cpu {

/// The gradient of a convolution's weights, each thread's from its share of the images, then added up in the
/// order of the shares. oneDNN divides the work itself, too, but its threads then wait for each other in
/// loops that never sleep: where another program wants the processor, they took five times as long.
class WeightPieces {
 public:
  /// Shares for `batch` images on the threads of now; 1: not worth it. Each share has its own gradient, so
  /// many threads had better be left to oneDNN, which divides the channels, too.
  static std::int64_t count_for(std::int64_t batch);

  /// `src` and `dst` describe all images, image by image; `weights` may leave the layout open.
  WeightPieces(const Runtime& rt, const ConvolutionForm& form, const Desc& src, const Desc& weights,
               const Desc& dst, std::int64_t count);

  /// Layout of the result.
  const Desc& layout() const { return layout_; }

  void run(const void* src, const void* dst_gradient, const dnnl::memory& gradient);

  std::size_t bytes() const;

 private:
  struct Piece {
    std::size_t src_offset = 0;
    std::size_t dst_offset = 0;
    dnnl::stream stream;
    dnnl::primitive primitive;
    dnnl::memory src, dst, gradient, scratch;
  };

  void add_up(float* sum) const;

  std::vector<Piece> pieces_;
  Desc layout_;
};

}  // namespace muster::nn::cpu
