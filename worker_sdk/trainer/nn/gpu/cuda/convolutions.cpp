// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/gpu/cuda/convolutions.hpp"

#include "muster/error.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace muster::nn::gpu {
namespace {

constexpr std::int64_t kXId = 'x';
constexpr std::int64_t kWId = 'w';
constexpr std::int64_t kYId = 'y';
/// Plans that are measured at most.
constexpr std::size_t kMostPlans = 8;

using Extents = std::array<std::int64_t, 4>;

/// Extents are named images (or outputs), channels, height, width; in memory the channels are innermost.
void describe_tensor(Descriptor& tensor, std::int64_t id, bool bf16, const Extents& extents) {
  const cudnnDataType_t type = bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  const std::int64_t alignment = 16;
  const Extents strides = {extents[1] * extents[2] * extents[3], 1, extents[1] * extents[3], extents[1]};
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, extents.data());
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data());
  tensor.finalize("describing a tensor");
}

void describe_convolution(Descriptor& convolution, const ConvolutionShape& shape) {
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const std::int64_t spatial = 2;
  const std::array<std::int64_t, 2> ones = {1, 1};
  const std::array<std::int64_t, 2> strides = {shape.stride, shape.stride};
  const std::array<std::int64_t, 2> paddings = {shape.padding, shape.padding};
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones.data());
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides.data());
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, paddings.data());
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, paddings.data());
  convolution.finalize("describing a convolution");
}

/// The names of one direction's attributes.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t alpha, beta, convolution, w, x, y;
};

Names names_of(Direction direction) {
  switch (direction) {
    case Direction::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case Direction::input_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case Direction::weight_gradient:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

/// What the engine of a proposed plan does to numbers; nothing where cuDNN will not say.
std::optional<std::vector<cudnnBackendNumericalNote_t>> notes_of(const Library& api,
                                                                 cudnnBackendDescriptor_t config) {
  const Descriptor engine(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t place = engine.get();
  std::int64_t count = 0;
  if (api.cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                   &count, &place) != CUDNN_STATUS_SUCCESS)
    return std::nullopt;
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  if (api.cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count,
                                   notes.data()) != CUDNN_STATUS_SUCCESS)
    return std::nullopt;
  notes.resize(std::min(notes.size(), static_cast<std::size_t>(count)));
  return notes;
}

std::string text_of(const ConvolutionCall& call) {
  static constexpr const char* kNames[] = {"", "the input gradient of ", "the weight gradient of "};
  const ConvolutionShape& s = call.shape;
  return kNames[static_cast<int>(call.direction)] + std::string("a convolution of ") +
         std::to_string(call.images) + " images of " + std::to_string(s.side) + " x " +
         std::to_string(s.side) + " x " + std::to_string(s.in) + " to " + std::to_string(s.out) +
         " channels, " + std::to_string(s.kernel) + " x " + std::to_string(s.kernel) + " at stride " +
         std::to_string(s.stride) +
         (call.bf16   ? ", bf16"
          : call.tf32 ? ", tf32"
                      : ", f32");
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

void Descriptor::finalize(const char* what) {
  check(api_, api_.cudnnBackendFinalize(descriptor_), what);
}

ConvolutionOperation::ConvolutionOperation(const Library& api, const ConvolutionCall& call)
    : x_(api, CUDNN_BACKEND_TENSOR_DESCRIPTOR),
      w_(api, CUDNN_BACKEND_TENSOR_DESCRIPTOR),
      y_(api, CUDNN_BACKEND_TENSOR_DESCRIPTOR),
      convolution_(api, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR),
      operation_(api, names_of(call.direction).operation) {
  const ConvolutionShape& s = call.shape;
  const std::int64_t out = s.out_side();
  describe_tensor(x_, kXId, call.bf16, {call.images, s.in, s.side, s.side});
  describe_tensor(w_, kWId, call.bf16, {s.out, s.in, s.kernel, s.kernel});
  describe_tensor(y_, kYId, call.bf16, {call.images, s.out, out, out});
  describe_convolution(convolution_, s);
  const Names names = names_of(call.direction);
  const float one = 1;
  const float zero = 0;
  const auto set = [&](cudnnBackendAttributeName_t name, const Descriptor& value) {
    const cudnnBackendDescriptor_t descriptor = value.get();
    operation_.set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
  };
  set(names.x, x_);
  set(names.w, w_);
  set(names.y, y_);
  set(names.convolution, convolution_);
  operation_.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one);
  operation_.set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  operation_.finalize(text_of(call).c_str());
}

bool is_wanted(const ConvolutionCall& call, std::span<const cudnnBackendNumericalNote_t> notes) {
  const auto has = [&](cudnnBackendNumericalNote_t note) {
    return std::find(notes.begin(), notes.end(), note) != notes.end();
  };
  if (has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  if (call.bf16) return true;
  if (has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
  return call.tf32 || !has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

Convolutions::Convolutions(const Library& api, cudaStream_t stream, void* workspace,
                           std::size_t workspace_bytes, bool autotune)
    : api_(api),
      stream_(stream),
      workspace_(workspace),
      workspace_bytes_(workspace_bytes),
      autotune_(autotune) {
  check(api_, api_.cudnnCreate(&handle_), "starting cuDNN");
  check(api_, api_.cudnnSetStream(handle_, stream_), "giving cuDNN a stream");
  check(api_, api_.cudaEventCreateWithFlags(&begin_, cudaEventDefault), "making an event");
  check(api_, api_.cudaEventCreateWithFlags(&end_, cudaEventDefault), "making an event");
}

Convolutions::~Convolutions() {
  plans_.clear();
  if (begin_ != nullptr) (void)api_.cudaEventDestroy(begin_);
  if (end_ != nullptr) (void)api_.cudaEventDestroy(end_);
  (void)api_.cudnnDestroy(handle_);
}

void Convolutions::run(const ConvolutionCall& call) {
  const ConvolutionShape& s = call.shape;
  Plan& plan = plans_[{call.direction, s.in, s.out, s.side, s.kernel, s.stride * 16 + s.padding, call.images,
                       call.bf16, call.tf32}];
  if (!plan) plan = choose(call);
  execute(*plan, call);
}

// The handle of a graph and of a plan are marked as deprecated in favour of descriptions of devices, which
// versions before 9.11 do not have.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/// What cuDNN proposes, the best first; nothing where it refuses to, as some heuristics do for some shapes.
std::vector<std::unique_ptr<Descriptor>> Convolutions::propose(const Descriptor& graph,
                                                               cudnnBackendHeurMode_t mode) const {
  Descriptor heuristics(api_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendDescriptor_t whole = graph.get();
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &whole);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (api_.cudnnBackendFinalize(heuristics.get()) != CUDNN_STATUS_SUCCESS) return {};
  std::vector<std::unique_ptr<Descriptor>> configs;
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

Convolutions::Plan Convolutions::choose(const ConvolutionCall& call) {
  const ConvolutionOperation operation(api_, call);
  const cudnnBackendDescriptor_t own = operation.get();
  Descriptor graph(api_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &own);
  graph.finalize(text_of(call).c_str());
  Plan best;
  float best_time = std::numeric_limits<float>::infinity();
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    std::size_t measured = 0;
    for (const auto& config : propose(graph, mode)) {
      Plan plan = make_plan(config->get(), call);
      if (!plan) continue;
      if (!autotune_) return plan;
      const float time = milliseconds(*plan, call);
      if (time < best_time) {
        best_time = time;
        best = std::move(plan);
      }
      if (++measured == kMostPlans) break;
    }
    if (best) return best;
  }
  throw Error(ErrorCode::unsupported, "cuDNN " + std::to_string(api_.cudnnGetVersion()) +
                                          " has no plan for " + text_of(call) +
                                          "; try another precision, or the CPU" + last_words(api_));
}

/// Null where the plan does not fit: heuristics also name engines that then refuse.
Convolutions::Plan Convolutions::make_plan(cudnnBackendDescriptor_t config,
                                           const ConvolutionCall& call) const {
  const auto notes = notes_of(api_, config);
  if (!notes || !is_wanted(call, *notes)) return nullptr;
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

#pragma GCC diagnostic pop

void Convolutions::execute(const Descriptor& plan, const ConvolutionCall& call) const {
  const std::array<std::int64_t, 3> ids = call.direction == Direction::forward ? std::array{kXId, kWId, kYId}
                                          : call.direction == Direction::input_gradient
                                              ? std::array{kYId, kWId, kXId}
                                              : std::array{kXId, kYId, kWId};
  const std::array<const void*, 3> places = {call.a, call.b, call.result};
  Descriptor pack(api_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, places.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace_);
  pack.finalize("describing the memory of a convolution");
  check(api_, api_.cudnnBackendExecute(handle_, plan.get(), pack.get()), text_of(call));
}

/// The best of three, after one that is not counted. The result is the same each time, and what it is made of
/// is not overwritten.
float Convolutions::milliseconds(const Descriptor& plan, const ConvolutionCall& call) const {
  float best = std::numeric_limits<float>::infinity();
  for (int i = 0; i < 4; ++i) {
    check(api_, api_.cudaEventRecord(begin_, stream_), "recording an event");
    execute(plan, call);
    check(api_, api_.cudaEventRecord(end_, stream_), "recording an event");
    check(api_, api_.cudaEventSynchronize(end_), text_of(call));
    float time = 0;
    check(api_, api_.cudaEventElapsedTime(&time, begin_, end_), "reading a time");
    if (i > 0) best = std::min(best, time);
  }
  return best;
}

}  // namespace muster::nn::gpu
