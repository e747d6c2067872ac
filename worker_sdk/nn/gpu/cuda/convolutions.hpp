// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/gpu/cuda/plans.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"

#include <map>
#include <optional>
#include <tuple>

namespace muster::nn::gpu {

/// The operation of one call and everything it is made of, without any device.
class ConvolutionOperation {
 public:
  ConvolutionOperation(const Library& api, const ConvolutionCall& call);

  cudnnBackendDescriptor_t get() const { return operation_.get(); }

 private:
  Descriptor x_;
  Descriptor w_;
  Descriptor y_;
  Descriptor convolution_;
  Descriptor operation_;
};

/// The tensors of a call. Pure.
TensorPlaces places_of(const ConvolutionCall& call);

/// Convolutions by cuDNN's plans, one for each shape, direction and type. One thread.
class Convolutions {
 public:
  /// `plans` outlives it.
  explicit Convolutions(const Plans& plans) : plans_(plans) {}

  /// The first call of a shape chooses its plan, and must not be captured. Throws Error (unsupported) where
  /// there is none.
  void run(const ConvolutionCall& call);
  /// The same, but false where there is no plan.
  bool try_run(const ConvolutionCall& call);

 private:
  using Key = std::tuple<Direction, int, int, int, int, int, std::int64_t, Element, bool>;

  const Plans& plans_;
  std::map<Key, std::optional<Plans::Chosen>> known_;
};

}  // namespace muster::nn::gpu
