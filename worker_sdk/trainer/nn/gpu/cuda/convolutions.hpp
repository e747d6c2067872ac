// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/gpu/cuda/library.hpp"
#include "worker_sdk/trainer/nn/gpu/ops.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

namespace muster::nn::gpu {

/// One descriptor of cuDNN's backend, destroyed with the object.
class Descriptor {
 public:
  Descriptor(const Library& api, cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  void finalize(const char* what);

  cudnnBackendDescriptor_t get() const { return descriptor_; }

 private:
  const Library& api_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

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

/// Whether a plan of cuDNN's with these notes may compute the call: not one whose result differs from run to
/// run; for 32-bit floats, none that rounds them first, which those on tensor cores do (to TF32, unless the
/// call allows it). Pure.
bool is_wanted(const ConvolutionCall& call, std::span<const cudnnBackendNumericalNote_t> notes);

/// Convolutions by cuDNN's plans, one for each shape, direction and type. One thread.
class Convolutions {
 public:
  /// `autotune`: the fastest of the plans that heuristics propose, by measurement; else their first, which
  /// gives the same bits in every run on one kind of device. Calls use `workspace`.
  Convolutions(const Library& api, cudaStream_t stream, void* workspace, std::size_t workspace_bytes,
               bool autotune);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;

  /// The first call of a shape chooses its plan, and must not be captured.
  void run(const ConvolutionCall& call);

 private:
  using Key = std::tuple<Direction, int, int, int, int, int, std::int64_t, bool, bool>;
  using Plan = std::unique_ptr<Descriptor>;

  Plan choose(const ConvolutionCall& call);
  std::vector<std::unique_ptr<Descriptor>> propose(const Descriptor& graph,
                                                   cudnnBackendHeurMode_t mode) const;
  Plan make_plan(cudnnBackendDescriptor_t config, const ConvolutionCall& call) const;
  void execute(const Descriptor& plan, const ConvolutionCall& call) const;
  float milliseconds(const Descriptor& plan, const ConvolutionCall& call) const;

  const Library& api_;
  const cudaStream_t stream_;
  void* const workspace_;
  const std::size_t workspace_bytes_;
  const bool autotune_;
  cudnnHandle_t handle_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  std::map<Key, Plan> plans_;
};

}  // namespace muster::nn::gpu
