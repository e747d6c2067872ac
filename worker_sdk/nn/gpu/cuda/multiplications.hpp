// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/gpu/cuda/plans.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"

#include <array>
#include <map>
#include <optional>
#include <string>

namespace muster::nn::gpu {

/// The operation of one call and everything it is made of, without any device. Tensors are batches x rows x
/// columns, which is the only rank that cuDNN's engines take.
class MultiplyOperation {
 public:
  MultiplyOperation(const Library& api, const MultiplyCall& call);

  cudnnBackendDescriptor_t get() const { return operation_.get(); }

 private:
  Descriptor a_;
  Descriptor b_;
  Descriptor result_;
  Descriptor multiplication_;
  Descriptor operation_;
};

/// "1 product of 4 x 8 by 8 x 2 elements, f32".
std::string text_of(const MultiplyCall& call);

/// Whether cuDNN's engines for products move such matrices: all rows and columns that they move at once begin
/// at multiples of 16 bytes. Pure.
bool is_aligned(const MultiplyCall& call);

/// The convolution of images of one pixel that computes the same; nothing where the matrices of the call do
/// not lie like its maps and weights. Pure.
std::optional<ConvolutionCall> as_convolution(const MultiplyCall& call);

/// Products of matrices by cuDNN's plans, one for each shape, layout and type. One thread.
class Multiplications {
 public:
  /// `plans` outlives it.
  explicit Multiplications(const Plans& plans) : plans_(plans) {}

  /// False where cuDNN has no plan for the call. The first call of a shape looks for one, and must not be
  /// captured.
  bool try_run(const MultiplyCall& call);

 private:
  /// Extents, distances and types.
  using Key = std::array<std::int64_t, 15>;

  const Plans& plans_;
  std::map<Key, std::optional<Plans::Chosen>> known_;
};

}  // namespace muster::nn::gpu
