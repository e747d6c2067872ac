// SPDX-License-Identifier: Apache-2.0
// The functions of the fake cuDNN.
#include "tests/fakes/cudnn/descriptor.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake::cudnn {
namespace {

Descriptor* as_ours(cudnnBackendDescriptor_t descriptor) {
  return static_cast<Descriptor*>(descriptor);
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
      return 8;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return sizeof(void*);
    default:
      return 4;  // enumerations and 32-bit floats
  }
}

/// Whether a plan of this engine is made, and then not executed.
bool refuses(std::size_t engine) {
  const char* const text = std::getenv("FAKE_CUDNN_PLANS");
  if (text == nullptr) return false;
  return std::strcmp(text, "refuse all") == 0 ||
         (std::strcmp(text, "refuse") == 0 && engine < first_fallback() - 1);
}

/// The configurations that the heuristics of a graph name, as many as there is room for.
cudnnStatus_t give_results(const Descriptor& heuristics, std::int64_t room, std::int64_t* count,
                           void* places) {
  const char* const text = std::getenv("FAKE_CUDNN_PLANS");
  const bool fallback =
      *heuristics.get<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
  std::size_t first = fallback ? first_fallback() : 0;
  const std::size_t end = fallback ? engines().size() : first_fallback();
  if (text != nullptr && (std::strcmp(text, "none") == 0 || (!refuses(0) && !fallback))) first = end;
  *count = std::min(room, static_cast<std::int64_t>(end - first));
  for (std::int64_t i = 0; i < *count; ++i) {
    Descriptor* const config = as_ours(static_cast<cudnnBackendDescriptor_t*>(places)[i]);
    if (config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
    config->engine = first + static_cast<std::size_t>(i);
    config->graph = heuristics.child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    config->finalized = true;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t give_notes(const Descriptor& engine, std::int64_t room, std::int64_t* count, void* notes) {
  const auto& own = engines()[engine.engine].notes;
  *count = static_cast<std::int64_t>(own.size());
  std::copy_n(own.begin(), std::min(room, *count), static_cast<cudnnBackendNumericalNote_t*>(notes));
  return CUDNN_STATUS_SUCCESS;
}

Convolution shape_of(const Descriptor& operation) {
  const Operation parts = parts_of(operation);
  const auto number = [&](cudnnBackendAttributeName_t name) {
    return static_cast<std::int32_t>(*parts.convolution->get<std::int64_t>(name));
  };
  Convolution result{};
  result.in = static_cast<std::int32_t>(extent(*parts.x, 1));
  result.out = static_cast<std::int32_t>(extent(*parts.y, 1));
  result.side = static_cast<std::int32_t>(extent(*parts.x, 2));
  result.kernel = static_cast<std::int32_t>(extent(*parts.w, 2));
  result.stride = number(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  result.padding = number(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  result.images = extent(*parts.x, 0);
  result.element = element_of(*parts.x);
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      result.result = Convolution::Result::output;
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      result.result = Convolution::Result::input_gradient;
      break;
    default:
      result.result = Convolution::Result::weight_gradient;
      break;
  }
  return result;
}

Product::Matrix matrix_of(const Descriptor& tensor) {
  // One matrix is multiplied with each of the other's.
  return {nullptr, stride(tensor, 1), stride(tensor, 2), extent(tensor, 0) == 1 ? 0 : stride(tensor, 0)};
}

Product product_of(const ProductParts& parts) {
  Product result{};
  result.batches = extent(*parts.c, 0);
  result.m = extent(*parts.c, 1);
  result.n = extent(*parts.c, 2);
  result.k = extent(*parts.a, 2);
  result.a = matrix_of(*parts.a);
  result.b = matrix_of(*parts.b);
  result.c = matrix_of(*parts.c);
  result.element = element_of(*parts.a);
  result.result_element = element_of(*parts.c);
  return result;
}

/// From the first to the last element.
Tensor tensor_of(const Descriptor& tensor) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < rank(tensor); ++i) last += (extent(tensor, i) - 1) * stride(tensor, i);
  const std::size_t bytes = static_cast<std::size_t>(last + 1) * (element_of(tensor) == Element::f32 ? 4 : 2);
  return {*tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          *tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT), bytes};
}

void take_shape(Descriptor& plan) {
  const auto* const config = plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const auto* const operation = config->graph->child(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  plan.engine = config->engine;
  if (operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    const ProductParts parts = product_parts_of(*operation);
    plan.shape = product_of(parts);
    plan.tensors = {tensor_of(*parts.a), tensor_of(*parts.b), tensor_of(*parts.c)};
    return;
  }
  const Operation parts = parts_of(*operation);
  plan.shape = shape_of(*operation);
  plan.tensors = {tensor_of(*parts.x), tensor_of(*parts.w), tensor_of(*parts.y)};
}

/// The memory of a tensor in a variant pack; null if it is not there, not aligned or not whole.
void* memory_of(const Tensor& tensor, const Descriptor& pack) {
  const auto* const ids = pack.get<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto* const places = pack.get<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (std::int64_t i = 0; i < pack.values.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count; ++i) {
    if (ids[i] != tensor.id) continue;
    const auto place = reinterpret_cast<std::uintptr_t>(places[i]);
    const bool aligned = place % static_cast<std::uintptr_t>(tensor.alignment) == 0;
    return aligned && is_device_memory(places[i], tensor.bytes) ? places[i] : nullptr;
  }
  return nullptr;
}

template <typename Shape>
void use_engine(Shape& shape, const Engine& engine, void* workspace) {
  shape.factor = engine.factor * (shape.element == Element::f32 ? engine.factor_f32 : 1);
  shape.workspace = workspace;
  shape.workspace_bytes = static_cast<std::uint64_t>(engine.workspace);
}

Request request_of(const Convolution& shape, const Engine& engine, const std::array<void*, 3>& places,
                   void* workspace) {
  Request request(Order::convolve);
  request.convolution = shape;
  use_engine(request.convolution, engine, workspace);
  request.convolution.x = places[0];
  request.convolution.w = places[1];
  request.convolution.y = places[2];
  return request;
}

Request request_of(const Product& shape, const Engine& engine, const std::array<void*, 3>& places,
                   void* workspace) {
  Request request(Order::multiply);
  request.product = shape;
  use_engine(request.product, engine, workspace);
  // On an H100 an engine of cuDNN 9.19 for products has no note of the tensor cores on which it multiplies.
  if (shape.element == Element::f32 && engine.factor_f32 == 1) request.product.factor *= kTf32;
  request.product.a.data = places[0];
  request.product.b.data = places[1];
  request.product.c.data = places[2];
  return request;
}

}  // namespace
}  // namespace fake::cudnn

using fake::cudnn::as_ours;

extern "C" {

FAKE_EXPORT std::size_t cudnnGetVersion() {
  const char* const text = std::getenv("FAKE_CUDNN_VERSION");
  return text == nullptr ? 91900 : static_cast<std::size_t>(std::atoll(text));
}

FAKE_EXPORT std::size_t cudnnGetCudartVersion() {
  const char* const text = std::getenv("FAKE_CUDNN_CUDART");
  return text == nullptr ? 13000 : static_cast<std::size_t>(std::atoll(text));
}

FAKE_EXPORT const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "an error of the fake cuDNN";
}

FAKE_EXPORT void cudnnGetLastErrorString(char* text, std::size_t bytes) {
  std::snprintf(text, bytes, "the fake cuDNN says no more");
}

FAKE_EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  int driver = 0;
  (void)cuDriverGetVersion(&driver);
  const int device = fake::current_device();
  if (device < 0 || static_cast<int>(cudnnGetCudartVersion()) / 1000 > driver / 1000)
    return CUDNN_STATUS_NOT_INITIALIZED;
  if (fake::start_device(device) != CUDA_SUCCESS) return CUDNN_STATUS_INTERNAL_ERROR;
  *handle = new cudnnContext{device, nullptr};
  return CUDNN_STATUS_SUCCESS;
}

FAKE_EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

FAKE_EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (fake::device_of(stream) != handle->device) return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

FAKE_EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                       cudnnBackendDescriptor_t* descriptor) {
  auto* const made = new fake::cudnn::Descriptor;
  made->type = type;
  *descriptor = made;
  return CUDNN_STATUS_SUCCESS;
}

FAKE_EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete as_ours(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

FAKE_EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                   cudnnBackendAttributeName_t name,
                                                   cudnnBackendAttributeType_t type, std::int64_t count,
                                                   const void* values) {
  if (as_ours(descriptor)->finalized || count < 1) return CUDNN_STATUS_BAD_PARAM;
  if (values == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const auto* const bytes = static_cast<const std::byte*>(values);
  const std::size_t size = static_cast<std::size_t>(count) * fake::cudnn::size_of(type);
  as_ours(descriptor)->values[name] = {type, count, {bytes, bytes + size}};
  return CUDNN_STATUS_SUCCESS;
}

FAKE_EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  auto* const own = as_ours(descriptor);
  const cudnnStatus_t result = fake::cudnn::check(*own);
  own->finalized = result == CUDNN_STATUS_SUCCESS;
  if (own->finalized && own->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) fake::cudnn::take_shape(*own);
  return result;
}

FAKE_EXPORT cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                                   cudnnBackendAttributeName_t name,
                                                   cudnnBackendAttributeType_t, std::int64_t room,
                                                   std::int64_t* count, void* values) {
  const auto* const own = as_ours(descriptor);
  if (!own->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      return fake::cudnn::give_results(*own, room, count, values);
    case CUDNN_ATTR_ENGINECFG_ENGINE: {
      auto* const engine = as_ours(*static_cast<cudnnBackendDescriptor_t*>(values));
      engine->engine = own->engine;
      engine->finalized = true;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      return fake::cudnn::give_notes(*own, room, count, values);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *static_cast<std::int64_t*>(values) = fake::cudnn::engines()[own->engine].workspace;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

FAKE_EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                              cudnnBackendDescriptor_t pack) {
  const auto* const own = as_ours(plan);
  const auto* const memory = as_ours(pack);
  if (!own->finalized || !memory->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (fake::cudnn::refuses(own->engine) || fake::current_device() != handle->device)
    return CUDNN_STATUS_EXECUTION_FAILED;
  const fake::cudnn::Engine& engine = fake::cudnn::engines()[own->engine];
  const std::array<void*, 3> places = {fake::cudnn::memory_of(own->tensors[0], *memory),
                                       fake::cudnn::memory_of(own->tensors[1], *memory),
                                       fake::cudnn::memory_of(own->tensors[2], *memory)};
  for (const void* place : places)
    if (place == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  void* const workspace = *memory->get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (engine.workspace > 0 && !fake::is_device_memory(workspace, static_cast<std::size_t>(engine.workspace)))
    return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  const fake::Request request =
      std::visit([&](const auto& shape) { return fake::cudnn::request_of(shape, engine, places, workspace); },
                 own->shape);
  fake::enqueue(handle->stream, [device = handle->device, request] {
    return [device, request] { (void)fake::ask_device(device, request); };
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
