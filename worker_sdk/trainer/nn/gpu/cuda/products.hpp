// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/gpu/cuda/library.hpp"
#include "worker_sdk/trainer/nn/gpu/ops.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <tuple>

namespace muster::nn::gpu {

/// Products of matrices by cuBLASLt, summed in 32-bit floats. One thread.
class Products {
 public:
  Products(const Library& api, cudaStream_t stream, void* workspace, std::size_t workspace_bytes);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// The first call of a shape chooses its algorithm by cuBLASLt's heuristics.
  void run(const MatrixCall& call);

 private:
  struct Plan;
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, bool, bool, std::int64_t,
                         std::int64_t, std::int64_t>;

  std::unique_ptr<Plan> choose(const MatrixCall& call) const;

  const Library& api_;
  const cudaStream_t stream_;
  void* const workspace_;
  const std::size_t workspace_bytes_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace muster::nn::gpu
