// SPDX-License-Identifier: Apache-2.0
// cuBLASLt counts columns first. What is row after row for us is the transposed matrix for it, so it computes
// result^T = B^T * A^T, and no matrix has to be moved.
#include "worker_sdk/trainer/nn/gpu/cuda/products.hpp"

#include "muster/error.hpp"

#include <string>

namespace muster::nn::gpu {

struct Products::Plan {
  explicit Plan(const Library& library) : api(library) {}

  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {first, second, result})
      if (layout != nullptr) (void)api.cublasLtMatrixLayoutDestroy(layout);
    if (operation != nullptr) (void)api.cublasLtMatmulDescDestroy(operation);
  }

  const Library& api;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr;
  cublasLtMatrixLayout_t second = nullptr;
  cublasLtMatrixLayout_t result = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

Products::Products(const Library& api, cudaStream_t stream, void* workspace, std::size_t workspace_bytes)
    : api_(api), stream_(stream), workspace_(workspace), workspace_bytes_(workspace_bytes) {
  check(api_, api_.cublasLtCreate(&handle_), "starting cuBLASLt");
}

Products::~Products() {
  plans_.clear();
  (void)api_.cublasLtDestroy(handle_);
}

std::unique_ptr<Products::Plan> Products::choose(const MatrixCall& call) const {
  auto plan = std::make_unique<Plan>(api_);
  const auto type = [](bool bf16) { return bf16 ? CUDA_R_16BF : CUDA_R_32F; };
  const auto layout = [&](cublasLtMatrixLayout_t* place, bool bf16, bool swapped, std::int64_t rows,
                          std::int64_t columns, std::int64_t pitch) {
    check(api_,
          api_.cublasLtMatrixLayoutCreate(place, type(bf16),
                                          static_cast<std::uint64_t>(swapped ? columns : rows),
                                          static_cast<std::uint64_t>(swapped ? rows : columns), pitch),
          "describing a matrix");
  };
  check(api_, api_.cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "describing a product");
  const cublasOperation_t as_first = call.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t as_second = call.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(api_,
        api_.cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &as_first,
                                            sizeof(as_first)),
        "describing a product");
  check(api_,
        api_.cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &as_second,
                                            sizeof(as_second)),
        "describing a product");
  layout(&plan->first, call.bf16, call.transpose_b, call.n, call.k, call.b_pitch);
  layout(&plan->second, call.bf16, call.transpose_a, call.k, call.m, call.a_pitch);
  layout(&plan->result, call.result_bf16, false, call.n, call.m, call.result_pitch);
  cublasLtMatmulPreference_t preference = nullptr;
  check(api_, api_.cublasLtMatmulPreferenceCreate(&preference), "choosing an algorithm");
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  (void)api_.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &workspace_bytes_, sizeof(workspace_bytes_));
  const cublasStatus_t status =
      api_.cublasLtMatmulAlgoGetHeuristic(handle_, plan->operation, plan->first, plan->second, plan->result,
                                          plan->result, preference, 1, &found, &count);
  (void)api_.cublasLtMatmulPreferenceDestroy(preference);
  const std::string what = "a product of " + std::to_string(call.m) + " x " + std::to_string(call.k) +
                           " and " + std::to_string(call.k) + " x " + std::to_string(call.n);
  check(api_, status, what);
  if (count == 0) throw Error(ErrorCode::unsupported, "cuBLASLt has no algorithm for " + what);
  plan->algorithm = found.algo;
  return plan;
}

void Products::run(const MatrixCall& call) {
  std::unique_ptr<Plan>& plan = plans_[{call.m, call.n, call.k, call.bf16, call.transpose_a, call.transpose_b,
                                        call.result_bf16, call.a_pitch, call.b_pitch, call.result_pitch}];
  if (!plan) plan = choose(call);
  const float one = 1;
  const float zero = 0;
  check(api_,
        api_.cublasLtMatmul(handle_, plan->operation, &one, call.b, plan->first, call.a, plan->second, &zero,
                            call.result, plan->result, call.result, plan->result, &plan->algorithm,
                            workspace_, workspace_bytes_, stream_),
        "a product of matrices");
}

}  // namespace muster::nn::gpu
