// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/gpu/cuda/multiplications.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

namespace muster::nn::gpu {
namespace {

constexpr std::int64_t kAId = 'a';
constexpr std::int64_t kBId = 'b';
constexpr std::int64_t kResultId = 'c';

/// Of one batch the distance of batches is that of the whole matrix, whatever the call says.
std::int64_t batch_distance(const MultiplyCall& call, const Matrix& matrix, std::int64_t rows,
                            std::int64_t columns) {
  if (call.batches > 1) return matrix.batch;
  return matrix.column == 1 ? rows * matrix.row : columns * matrix.column;
}

Matrix result_of(const MultiplyCall& call) {
  return {call.result, call.result_row, 1, call.result_batch};
}

void describe_matrix(Descriptor& tensor, std::int64_t id, Element element, const MultiplyCall& call,
                     const Matrix& matrix, std::int64_t rows, std::int64_t columns) {
  const std::array<std::int64_t, 3> extents = {call.batches, rows, columns};
  const std::array<std::int64_t, 3> strides = {batch_distance(call, matrix, rows, columns), matrix.row,
                                               matrix.column};
  describe_tensor(tensor, id, element, extents, strides);
}

bool is_aligned(const void* place) {
  return reinterpret_cast<std::uintptr_t>(place) % static_cast<std::uintptr_t>(kTensorAlignment) == 0;
}

/// Whether the elements of each row, or else of each column, lie side by side from a multiple of 16 bytes on.
bool is_aligned(const MultiplyCall& call, const Matrix& matrix, Element element) {
  const std::int64_t pack = kTensorAlignment / bytes_of(element);
  if (matrix.row != 1 && matrix.column != 1) return false;
  const std::int64_t distance = matrix.column == 1 ? matrix.row : matrix.column;
  return is_aligned(matrix.data) && distance % pack == 0 && (call.batches == 1 || matrix.batch % pack == 0);
}

}  // namespace

std::string text_of(const MultiplyCall& call) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  return text(call.batches) + (call.batches == 1 ? " product of " : " products of ") + text(call.m) + " x " +
         text(call.k) + " by " + text(call.k) + " x " + text(call.n) + " elements, " +
         text_of(call.element, call.tf32);
}

MultiplyOperation::MultiplyOperation(const Library& api, const MultiplyCall& call)
    : a_(api, CUDNN_BACKEND_TENSOR_DESCRIPTOR),
      b_(api, CUDNN_BACKEND_TENSOR_DESCRIPTOR),
      result_(api, CUDNN_BACKEND_TENSOR_DESCRIPTOR),
      multiplication_(api, CUDNN_BACKEND_MATMUL_DESCRIPTOR),
      operation_(api, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
  describe_matrix(a_, kAId, call.element, call, call.a, call.m, call.k);
  describe_matrix(b_, kBId, call.element, call, call.b, call.k, call.n);
  describe_matrix(result_, kResultId, call.result_element, call, result_of(call), call.m, call.n);
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;
  multiplication_.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  multiplication_.finalize("describing a product");
  operation_.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a_);
  operation_.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b_);
  operation_.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, result_);
  operation_.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, multiplication_);
  operation_.finalize(text_of(call).c_str());
}

bool is_aligned(const MultiplyCall& call) {
  return is_aligned(call, call.a, call.element) && is_aligned(call, call.b, call.element) &&
         is_aligned(call, result_of(call), call.result_element);
}

std::optional<ConvolutionCall> as_convolution(const MultiplyCall& call) {
  if (call.batches != 1 || call.result_row != call.n || call.element != call.result_element)
    return std::nullopt;
  if (!is_aligned(call.a.data) || !is_aligned(call.b.data) || !is_aligned(call.result)) return std::nullopt;
  if (std::max({call.m, call.n, call.k}) > std::numeric_limits<int>::max()) return std::nullopt;
  const auto lies = [](const Matrix& matrix, std::int64_t row, std::int64_t column) {
    return matrix.row == row && matrix.column == column;
  };
  const auto make = [&](Direction direction, std::int64_t images, std::int64_t in, std::int64_t out,
                        const void* a, const void* b) {
    const ConvolutionShape shape = {static_cast<int>(in), static_cast<int>(out), 1, 1, 1, 0};
    return ConvolutionCall{direction, shape, images, call.element, a, b, call.result, call.tf32};
  };
  const void* const a = call.a.data;
  const void* const b = call.b.data;
  if (lies(call.a, call.k, 1)) {
    if (lies(call.b, 1, call.k)) return make(Direction::forward, call.m, call.k, call.n, a, b);
    if (lies(call.b, call.n, 1)) return make(Direction::input_gradient, call.m, call.n, call.k, a, b);
  }
  // The map before the gradient of the result.
  if (lies(call.a, 1, call.m) && lies(call.b, call.n, 1))
    return make(Direction::weight_gradient, call.k, call.n, call.m, b, a);
  return std::nullopt;
}

bool Multiplications::try_run(const MultiplyCall& call) {
  if (!is_aligned(call)) return false;
  const Key key = {call.batches,
                   call.m,
                   call.n,
                   call.k,
                   call.a.row,
                   call.a.column,
                   batch_distance(call, call.a, call.m, call.k),
                   call.b.row,
                   call.b.column,
                   batch_distance(call, call.b, call.k, call.n),
                   call.result_row,
                   batch_distance(call, result_of(call), call.m, call.n),
                   static_cast<std::int64_t>(call.element),
                   static_cast<std::int64_t>(call.result_element),
                   call.tf32 ? 1 : 0};
  const TensorPlaces places = {{kAId, kBId, kResultId}, {call.a.data, call.b.data, call.result}};
  return plans_.run<MultiplyOperation>(known_[key], call, places, [&call] { return text_of(call); });
}

}  // namespace muster::nn::gpu
