// SPDX-License-Identifier: Apache-2.0
// What cuDNN demands of descriptors, as far as the product makes them.
#include "tests/fakes/cudnn/descriptor.hpp"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace fake::cudnn {
namespace {

constexpr std::int64_t kTooMuch = std::int64_t{1} << 40;

bool has_all(const Descriptor& descriptor, std::initializer_list<cudnnBackendAttributeName_t> names) {
  for (const auto name : names)
    if (!descriptor.has(name)) return false;
  return true;
}

bool all_final(const Descriptor& descriptor) {
  for (const auto& [name, values] : descriptor.values)
    if (values.type == CUDNN_TYPE_BACKEND_DESCRIPTOR && !descriptor.child(name)->finalized) return false;
  return true;
}

/// Batches x rows x columns. Either the rows or the columns lie side by side.
bool is_matrix(const Descriptor& tensor) {
  return rank(tensor) == 3 && (stride(tensor, 1) == 1 || stride(tensor, 2) == 1);
}

/// A matrix, or images x channels x height x width with the channels innermost.
cudnnStatus_t check_tensor(const Descriptor& tensor) {
  if (!has_all(tensor,
               {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
                CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES}))
    return CUDNN_STATUS_BAD_PARAM;
  const auto type = *tensor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  if (type != CUDNN_DATA_FLOAT && type != CUDNN_DATA_BFLOAT16 && type != CUDNN_DATA_HALF)
    return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
  if (tensor.values.at(CUDNN_ATTR_TENSOR_STRIDES).count != static_cast<std::int64_t>(rank(tensor)))
    return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  for (std::size_t i = 0; i < rank(tensor); ++i)
    if (extent(tensor, i) < 1 || stride(tensor, i) < 1) return CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND;
  if (rank(tensor) == 3) return is_matrix(tensor) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
  if (rank(tensor) != 4) return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
  const std::int64_t c = extent(tensor, 1);
  const std::int64_t wanted[] = {c * extent(tensor, 2) * extent(tensor, 3), 1, c * extent(tensor, 3), c};
  return std::memcmp(tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES), wanted, sizeof(wanted)) == 0
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
}

cudnnStatus_t check_convolution(const Descriptor& convolution) {
  if (!has_all(convolution, {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
                             CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_ATTR_CONVOLUTION_DILATIONS,
                             CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
                             CUDNN_ATTR_CONVOLUTION_POST_PADDINGS}))
    return CUDNN_STATUS_BAD_PARAM;
  const bool right =
      *convolution.get<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 &&
      *convolution.get<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT &&
      *convolution.get<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION &&
      convolution.get<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS)[0] == 1;
  return right ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

/// The names of the attributes of an operation, by its direction.
struct Names {
  cudnnBackendAttributeName_t convolution, w, x, y, alpha, beta;
};

Names names_of(cudnnBackendDescriptorType_t operation) {
  switch (operation) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

cudnnStatus_t check_operation(const Descriptor& operation) {
  const Names names = names_of(operation.type);
  if (!has_all(operation, {names.convolution, names.w, names.x, names.y, names.alpha, names.beta}))
    return CUDNN_STATUS_BAD_PARAM;
  if (*operation.get<float>(names.alpha) != 1 || *operation.get<float>(names.beta) != 0)
    return CUDNN_STATUS_NOT_SUPPORTED;
  const Operation parts = parts_of(operation);
  if (extent(*parts.x, 0) != extent(*parts.y, 0) || extent(*parts.x, 1) != extent(*parts.w, 1) ||
      extent(*parts.y, 1) != extent(*parts.w, 0))
    return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto number = [&](cudnnBackendAttributeName_t name) {
      return parts.convolution->get<std::int64_t>(name)[i];
    };
    const std::int64_t room = extent(*parts.x, 2 + i) + number(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS) +
                              number(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS) - extent(*parts.w, 2 + i);
    if (room < 0 || room / number(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES) + 1 != extent(*parts.y, 2 + i))
      return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_multiplication(const Descriptor& multiplication) {
  if (!has_all(multiplication, {CUDNN_ATTR_MATMUL_COMP_TYPE})) return CUDNN_STATUS_BAD_PARAM;
  return *multiplication.get<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE) == CUDNN_DATA_FLOAT
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_NOT_SUPPORTED;
}

/// A batch of one matrix is multiplied with each of the other's.
cudnnStatus_t check_product(const Descriptor& operation) {
  if (!has_all(operation, {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                           CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_ATTR_OPERATION_MATMUL_DESC}))
    return CUDNN_STATUS_BAD_PARAM;
  const ProductParts parts = product_parts_of(operation);
  for (const Descriptor* tensor : {parts.a, parts.b, parts.c}) {
    if (rank(*tensor) != 3) return CUDNN_STATUS_NOT_SUPPORTED;
    if (extent(*tensor, 0) != extent(*parts.c, 0) && extent(*tensor, 0) != 1)
      return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  }
  if (extent(*parts.a, 1) != extent(*parts.c, 1) || extent(*parts.b, 2) != extent(*parts.c, 2) ||
      extent(*parts.a, 2) != extent(*parts.b, 1))
    return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  if (element_of(*parts.a) != element_of(*parts.b) ||
      (element_of(*parts.c) != Element::f32 && element_of(*parts.c) != element_of(*parts.a)))
    return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
  return CUDNN_STATUS_SUCCESS;
}

/// Engines for products move 16 bytes at once, along the elements that lie side by side.
bool multiplies(const Descriptor& operation) {
  const ProductParts parts = product_parts_of(operation);
  for (const Descriptor* tensor : {parts.a, parts.b, parts.c}) {
    const std::int64_t pack = element_of(*tensor) == Element::f32 ? 4 : 8;
    const std::size_t side = stride(*tensor, 2) == 1 ? 1 : 2;
    if (stride(*tensor, side) % pack != 0 || extent(*tensor, 3 - side) % pack != 0) return false;
    if (extent(*tensor, 0) > 1 && stride(*tensor, 0) % pack != 0) return false;
  }
  return true;
}

cudnnStatus_t check_heuristics(const Descriptor& heuristics) {
  if (!has_all(heuristics, {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_MODE}))
    return CUDNN_STATUS_BAD_PARAM;
  const char* const plans = std::getenv("FAKE_CUDNN_PLANS");
  const bool first = *heuristics.get<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A;
  return first && plans != nullptr && std::strcmp(plans, "broken") == 0 ? CUDNN_STATUS_NOT_SUPPORTED
                                                                        : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_plan(const Descriptor& plan) {
  if (!has_all(plan, {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG})) return CUDNN_STATUS_BAD_PARAM;
  // It loads kernels.
  if (breaks_capture("finalizing a plan of cuDNN")) return CUDNN_STATUS_EXECUTION_FAILED_CUDART;
  const Descriptor& config = *plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const Descriptor& operation = *config.graph->child(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  const Engine& engine = engines()[config.engine];
  const bool product = operation.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
  return engine.finalizes && (!product || multiplies(operation)) ? CUDNN_STATUS_SUCCESS
                                                                 : CUDNN_STATUS_NOT_SUPPORTED;
}

}  // namespace

const std::vector<Engine>& engines() {
  static const std::vector<Engine> all = {
      {false, 0, 1, 1, {}},
      {true, 0, 1.5F, 1, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
      {true, kTooMuch, 1.5F, 1, {}},
      {true, 0, 1, 1.01F, {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}},
      {true, 4096, 1, kTf32, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}},
      {true, 4096, 1, 1, {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}},
      {true, 0, 1, 1, {}},
      // The fallback mode's.
      {false, 0, 1, 1, {}},
      {true, 0, 1, 1, {}},
  };
  return all;
}

std::size_t first_fallback() {
  return engines().size() - 2;
}

std::int64_t extent(const Descriptor& tensor, std::size_t place) {
  return tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)[place];
}

std::int64_t stride(const Descriptor& tensor, std::size_t place) {
  return tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES)[place];
}

std::size_t rank(const Descriptor& tensor) {
  return static_cast<std::size_t>(tensor.values.at(CUDNN_ATTR_TENSOR_DIMENSIONS).count);
}

Element element_of(const Descriptor& tensor) {
  switch (*tensor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)) {
    case CUDNN_DATA_BFLOAT16:
      return Element::bf16;
    case CUDNN_DATA_HALF:
      return Element::f16;
    default:
      return Element::f32;
  }
}

ProductParts product_parts_of(const Descriptor& operation) {
  return {operation.child(CUDNN_ATTR_OPERATION_MATMUL_ADESC),
          operation.child(CUDNN_ATTR_OPERATION_MATMUL_BDESC),
          operation.child(CUDNN_ATTR_OPERATION_MATMUL_CDESC)};
}

Operation parts_of(const Descriptor& operation) {
  const Names names = names_of(operation.type);
  return {operation.child(names.x), operation.child(names.w), operation.child(names.y),
          operation.child(names.convolution)};
}

cudnnStatus_t check(const Descriptor& descriptor) {
  if (!all_final(descriptor)) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  switch (descriptor.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return check_tensor(descriptor);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return check_convolution(descriptor);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return check_operation(descriptor);
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
      return check_multiplication(descriptor);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return check_product(descriptor);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return check_heuristics(descriptor);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return check_plan(descriptor);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return has_all(descriptor, {CUDNN_ATTR_OPERATIONGRAPH_OPS}) ? CUDNN_STATUS_SUCCESS
                                                                  : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return has_all(descriptor, {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                  CUDNN_ATTR_VARIANT_PACK_WORKSPACE})
                 ? CUDNN_STATUS_SUCCESS
                 : CUDNN_STATUS_BAD_PARAM;
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

}  // namespace fake::cudnn
