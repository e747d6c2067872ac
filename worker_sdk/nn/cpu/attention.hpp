// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/cpu/rows.hpp"

#include <cstdint>

namespace muster::nn::cpu {

/// y = softmax(q k^T / sqrt(width / heads)) v for each head of each sample, every token seeing every other:
/// Vaswani et al., "Attention Is All You Need", 2017. A row of the input is [q | k | v], each `width` floats,
/// head after head, as from the in_proj of PyTorch's MultiheadAttention. One thread.
class Attention : public WorkspaceHolder {
 public:
  /// Throws Error (invalid_argument) where the heads do not divide the width.
  Attention(Room& room, std::int64_t tokens, std::int64_t width, std::int64_t heads);

  /// Keeps a number for each query and head for backward().
  void forward(const float* qkv, std::int64_t batch, float* y);
  /// dqkv may be qkv.
  void backward(const float* qkv, const float* dy, std::int64_t batch, float* dqkv);

  Workspace workspace() const override { return {scratch_.bytes(), 0}; }

  Workspace workspace_for(std::span<const BatchSize> batches) const override {
    return {Buffer::whole_pages(scratch_bytes(largest(batches))), 0};
  }

 private:
  /// Heads are shared out among the threads, each with scratch of its own.
  std::size_t shares(std::int64_t batch) const;
  std::size_t scratch_bytes(std::int64_t batch) const;

  template <typename Body>
  void each_head(std::int64_t batch, const Body& body);

  const RowShape shape_;
  const std::size_t heads_;
  const HeadRows head_;
  const Memory<float> levels_;  ///< logarithms of the sums of a query's exponentials
  Buffer scratch_;              ///< of each thread
};

}  // namespace muster::nn::cpu
