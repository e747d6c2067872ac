// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/gpu/cuda/convolutions.hpp"
#include "worker_sdk/nn/gpu/cuda/library.hpp"
#include "worker_sdk/nn/gpu/cuda/multiplications.hpp"
#include "worker_sdk/nn/gpu/cuda/plans.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace muster::nn::gpu {

/// The streams and events of a device.
class Streams {
 public:
  Streams(const Library& api, int device);
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  CUstream main = nullptr;
  CUstream side = nullptr;  ///< has the highest priority, for work that other ranks wait for
  CUevent forked = nullptr;
  CUevent joined = nullptr;

  /// Before the end of this object, where the device's context is not current then.
  void free_all();

 private:
  const Library& api_;
};

/// Ops on a GPU. One thread, to which it gives the device's primary context.
class CudaOps final : public Ops {
 public:
  /// Throws as library() and require_device(). `autotune`: see Plans.
  CudaOps(int device, bool autotune);
  ~CudaOps() override;
  CudaOps(const CudaOps&) = delete;
  CudaOps& operator=(const CudaOps&) = delete;

  void* allocate(std::size_t bytes, const char* what) override;
  void clear(void* memory, std::size_t bytes) override;
  void to_device(void* to, const void* from, std::size_t bytes) override;
  void from_device(void* to, const void* from, std::size_t bytes) override;
  void convolve(const ConvolutionCall& call) override;
  void multiply(const MultiplyCall& call) override;
  void launch(KernelNumber number, const void* kernel, const Grid& grid) override;
  void on_side(const std::function<void(void*)>& work) override;
  void join_side() override;
  std::unique_ptr<Graph> capture(const std::function<void()>& work) override;
  void synchronize() override;
  void mark(std::size_t number) override;
  std::chrono::nanoseconds between(std::size_t from, std::size_t to) override;
  void require_working() override;

  std::string take_note() override { return std::exchange(note_, {}); }

  void* stream() override { return streams_.main; }

  std::size_t allocated() const override { return allocated_; }

  std::size_t free_bytes() const override;

 private:
  void load_kernels();
  void note_fallback(const MultiplyCall& call);

  const Library& api_;
  const int device_;
  const CUcontext context_;
  Streams streams_;
  CUstream stream_;  ///< the stream onto which calls go now
  bool recording_ = false;
  std::vector<CUevent> marks_;  ///< made when they are first put
  CUmodule kernels_ = nullptr;
  std::array<CUfunction, static_cast<std::size_t>(KernelNumber::count)> entries_{};
  std::vector<void*> memory_;
  std::size_t allocated_ = 0;
  std::unique_ptr<Plans> plans_;
  std::unique_ptr<Convolutions> convolutions_;
  std::unique_ptr<Multiplications> multiplications_;
  std::string note_;
  bool has_fallen_back_ = false;
};

}  // namespace muster::nn::gpu
