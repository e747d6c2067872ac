// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/gpu/cuda/plans.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace muster::nn::gpu {
namespace {

/// Plans that are measured at most.
constexpr std::size_t kMostPlans = 8;

/// The number of the engine of a proposed plan, and what it does to numbers; nothing where cuDNN will not
/// say.
std::optional<Proposal> engine_of(const Library& api, cudnnBackendDescriptor_t config) {
  const Descriptor engine(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t place = engine.get();
  std::int64_t count = 0;
  if (api.cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                   &count, &place) != CUDNN_STATUS_SUCCESS)
    return std::nullopt;
  Proposal found;
  found.notes.resize(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  if (api.cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count,
                                   found.notes.data()) != CUDNN_STATUS_SUCCESS)
    return std::nullopt;
  found.notes.resize(std::min(found.notes.size(), static_cast<std::size_t>(count)));
  (void)api.cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                     &count, &found.engine);
  return found;
}

}  // namespace

Descriptor::Descriptor(const Library& api, cudnnBackendDescriptorType_t type) : api_(api) {
  check(api_, api_.cudnnBackendCreateDescriptor(type, &descriptor_), "making a descriptor of cuDNN");
}

Descriptor::~Descriptor() {
  (void)api_.cudnnBackendDestroyDescriptor(descriptor_);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                     const void* values) {
  check(api_, api_.cudnnBackendSetAttribute(descriptor_, name, type, count, values),
        "setting attribute " + std::to_string(static_cast<int>(name)) + " of cuDNN");
}

void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  const cudnnBackendDescriptor_t descriptor = value.get();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
}

void Descriptor::finalize(const char* what) {
  check(api_, api_.cudnnBackendFinalize(descriptor_), what);
}

const char* text_of(Element element, bool tf32) {
  switch (element) {
    case Element::bf16:
      return "bf16";
    case Element::f16:
      return "f16";
    case Element::f32:
      break;
  }
  return tf32 ? "tf32" : "f32";
}

void describe_tensor(Descriptor& tensor, std::int64_t id, Element element,
                     std::span<const std::int64_t> extents, std::span<const std::int64_t> strides) {
  const cudnnDataType_t type = element == Element::f32    ? CUDNN_DATA_FLOAT
                               : element == Element::bf16 ? CUDNN_DATA_BFLOAT16
                                                          : CUDNN_DATA_HALF;
  const auto rank = static_cast<std::int64_t>(extents.size());
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &kTensorAlignment);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, extents.data());
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides.data());
  tensor.finalize("describing a tensor");
}

bool is_wanted(const Numbers& numbers, std::span<const cudnnBackendNumericalNote_t> notes) {
  const auto has = [&](cudnnBackendNumericalNote_t note) {
    return std::find(notes.begin(), notes.end(), note) != notes.end();
  };
  if (has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  if (numbers.element != Element::f32) return true;
  if (has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
  return numbers.tf32 || !has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

Plans::Plans(const Library& api, CUstream stream, void* workspace, std::size_t workspace_bytes, bool autotune)
    : api_(api),
      stream_(stream),
      workspace_(workspace),
      workspace_bytes_(workspace_bytes),
      autotune_(autotune) {
  check(api_, api_.cudnnCreate(&handle_), "starting cuDNN");
  try {
    check(api_, api_.cudnnSetStream(handle_, stream_), "giving cuDNN a stream");
    check(api_, api_.cuEventCreate(&begin_, CU_EVENT_DEFAULT), "making an event");
    check(api_, api_.cuEventCreate(&end_, CU_EVENT_DEFAULT), "making an event");
  } catch (...) {
    free_all();
    throw;
  }
}

Plans::~Plans() {
  free_all();
}

void Plans::free_all() {
  if (begin_ != nullptr) (void)api_.cuEventDestroy(begin_);
  if (end_ != nullptr) (void)api_.cuEventDestroy(end_);
  (void)api_.cudnnDestroy(handle_);
}

// The handle of a graph and of a plan are marked as deprecated in favour of descriptions of devices, which
// versions before 9.11 do not have.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/// The graph of one operation; null where cuDNN does not take it.
Plans::Plan Plans::graph_of(cudnnBackendDescriptor_t operation) const {
  auto graph = std::make_unique<Descriptor>(api_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
  graph->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
  return api_.cudnnBackendFinalize(graph->get()) == CUDNN_STATUS_SUCCESS ? std::move(graph) : nullptr;
}

/// What cuDNN proposes, the best first; nothing where it refuses to, as some heuristics do for some shapes.
std::vector<Plans::Plan> Plans::propose(const Descriptor& graph, cudnnBackendHeurMode_t mode) const {
  Descriptor heuristics(api_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendDescriptor_t whole = graph.get();
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &whole);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (api_.cudnnBackendFinalize(heuristics.get()) != CUDNN_STATUS_SUCCESS) return {};
  std::vector<Plan> configs;
  std::vector<cudnnBackendDescriptor_t> places;
  for (std::size_t i = 0; i < 3 * kMostPlans; ++i) {
    configs.push_back(std::make_unique<Descriptor>(api_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    places.push_back(configs.back()->get());
  }
  std::int64_t count = 0;
  if (api_.cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(places.size()),
                                    &count, places.data()) != CUDNN_STATUS_SUCCESS)
    return {};
  configs.resize(std::min(configs.size(), static_cast<std::size_t>(count)));
  return configs;
}

Plans::Plan Plans::choose(cudnnBackendDescriptor_t operation, const Numbers& numbers,
                          const TensorPlaces& tensors, const Text& text, std::size_t refused) const {
  const Plan graph = graph_of(operation);
  if (!graph) return nullptr;
  Plan best;
  float best_time = std::numeric_limits<float>::infinity();
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    std::size_t measured = 0;
    for (const auto& config : propose(*graph, mode)) {
      Plan plan = make_plan(config->get(), numbers);
      if (!plan) continue;
      if (refused > 0) {
        --refused;
        continue;
      }
      if (!autotune_) return plan;
      if (is_refused(try_execute(*plan, tensors), text)) continue;
      const float time = milliseconds(*plan, tensors, text);
      if (time < best_time) {
        best_time = time;
        best = std::move(plan);
      }
      if (++measured == kMostPlans) break;
    }
    if (best) return best;
  }
  return nullptr;
}

/// Null where the plan does not fit: heuristics also name engines that then refuse.
Plans::Plan Plans::make_plan(cudnnBackendDescriptor_t config, const Numbers& numbers) const {
  const auto engine = engine_of(api_, config);
  return engine && is_wanted(numbers, engine->notes) ? make_plan(config) : nullptr;
}

Plans::Plan Plans::make_plan(cudnnBackendDescriptor_t config) const {
  auto plan = std::make_unique<Descriptor>(api_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
  plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
  if (api_.cudnnBackendFinalize(plan->get()) != CUDNN_STATUS_SUCCESS) return nullptr;
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  check(api_,
        api_.cudnnBackendGetAttribute(plan->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                      1, &count, &bytes),
        "asking for the workspace of a plan");
  if (bytes > static_cast<std::int64_t>(workspace_bytes_)) return nullptr;
  return plan;
}

void Plans::each_proposed(cudnnBackendDescriptor_t operation,
                          const std::function<void(const Proposal&)>& look) const {
  const Plan graph = graph_of(operation);
  if (!graph) return;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const auto& config : propose(*graph, mode)) {
      auto proposal = engine_of(api_, config->get());
      if (!proposal) continue;
      proposal->plan = make_plan(config->get());
      look(*proposal);
    }
}

#pragma GCC diagnostic pop

/// Runs the plan. False where it cannot be executed.
bool Plans::works(Chosen& chosen, const TensorPlaces& tensors, const Text& text) const {
  const cudnnStatus_t result = try_execute(*chosen.plan, tensors);
  if (chosen.works)
    check(api_, result, text());
  else
    chosen.works = !is_refused(result, text);
  return chosen.works;
}

/// Whether it is the plan that cannot be executed. Throws where it is the device that has failed.
bool Plans::is_refused(cudnnStatus_t result, const Text& text) const {
  if (result == CUDNN_STATUS_SUCCESS) return false;
  const CUresult state = api_.cuStreamQuery(stream_);
  if (state != CUDA_SUCCESS && state != CUDA_ERROR_NOT_READY) check(api_, result, text());
  return true;
}

void Plans::execute(const Descriptor& plan, const TensorPlaces& tensors, const Text& text) const {
  const cudnnStatus_t result = try_execute(plan, tensors);
  if (result != CUDNN_STATUS_SUCCESS) check(api_, result, text());
}

cudnnStatus_t Plans::try_execute(const Descriptor& plan, const TensorPlaces& tensors) const {
  Descriptor pack(api_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, tensors.ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, tensors.places.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace_);
  pack.finalize("describing the memory of an operation");
  return api_.cudnnBackendExecute(handle_, plan.get(), pack.get());
}

/// The best of three; the plan has run before. The result is the same each time, and what it is made of
/// is not overwritten.
float Plans::milliseconds(const Descriptor& plan, const TensorPlaces& tensors, const Text& text) const {
  float best = std::numeric_limits<float>::infinity();
  for (int i = 0; i < 3; ++i) {
    check(api_, api_.cuEventRecord(begin_, stream_), "recording an event");
    execute(plan, tensors, text);
    check(api_, api_.cuEventRecord(end_, stream_), "recording an event");
    check(api_, api_.cuEventSynchronize(end_), text());
    float time = 0;
    check(api_, api_.cuEventElapsedTime(&time, begin_, end_), "reading a time");
    best = std::min(best, time);
  }
  return best;
}

}  // namespace muster::nn::gpu
