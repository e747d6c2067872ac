// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/gpu/cuda/convolutions.hpp"

#include "muster/error.hpp"

#include <array>
#include <string>

namespace muster::nn::gpu {
namespace {

constexpr std::int64_t kXId = 'x';
constexpr std::int64_t kWId = 'w';
constexpr std::int64_t kYId = 'y';

using Extents = std::array<std::int64_t, 4>;

/// Extents are named images (or outputs), channels, height, width; in memory the channels are innermost.
void describe_map(Descriptor& tensor, std::int64_t id, Element element, const Extents& extents) {
  const Extents strides = {extents[1] * extents[2] * extents[3], 1, extents[1] * extents[3], extents[1]};
  describe_tensor(tensor, id, element, extents, strides);
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

std::string text_of(const ConvolutionCall& call) {
  static constexpr const char* kNames[] = {"", "the input gradient of ", "the weight gradient of "};
  const ConvolutionShape& s = call.shape;
  return kNames[static_cast<int>(call.direction)] + std::string("a convolution of ") +
         std::to_string(call.images) + " images of " + std::to_string(s.side) + " x " +
         std::to_string(s.side) + " x " + std::to_string(s.in) + " to " + std::to_string(s.out) +
         " channels, " + std::to_string(s.kernel) + " x " + std::to_string(s.kernel) + " at stride " +
         std::to_string(s.stride) + ", " + text_of(call.element, call.tf32);
}

}  // namespace

TensorPlaces places_of(const ConvolutionCall& call) {
  const std::array<const void*, 3> places = {call.a, call.b, call.result};
  switch (call.direction) {
    case Direction::forward:
      return {{kXId, kWId, kYId}, places};
    case Direction::input_gradient:
      return {{kYId, kWId, kXId}, places};
    case Direction::weight_gradient:
      break;
  }
  return {{kXId, kYId, kWId}, places};
}

ConvolutionOperation::ConvolutionOperation(const Library& api, const ConvolutionCall& call)
    : x_(api, CUDNN_BACKEND_TENSOR_DESCRIPTOR),
      w_(api, CUDNN_BACKEND_TENSOR_DESCRIPTOR),
      y_(api, CUDNN_BACKEND_TENSOR_DESCRIPTOR),
      convolution_(api, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR),
      operation_(api, names_of(call.direction).operation) {
  const ConvolutionShape& s = call.shape;
  const std::int64_t out = s.out_side();
  describe_map(x_, kXId, call.element, {call.images, s.in, s.side, s.side});
  describe_map(w_, kWId, call.element, {s.out, s.in, s.kernel, s.kernel});
  describe_map(y_, kYId, call.element, {call.images, s.out, out, out});
  describe_convolution(convolution_, s);
  const Names names = names_of(call.direction);
  const float one = 1;
  const float zero = 0;
  operation_.set(names.x, x_);
  operation_.set(names.w, w_);
  operation_.set(names.y, y_);
  operation_.set(names.convolution, convolution_);
  operation_.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one);
  operation_.set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  operation_.finalize(text_of(call).c_str());
}

void Convolutions::run(const ConvolutionCall& call) {
  if (try_run(call)) return;
  const Library& api = plans_.api();
  throw Error(ErrorCode::unsupported, "cuDNN " + std::to_string(api.cudnnGetVersion()) + " has no plan for " +
                                          text_of(call) + "; try another precision, or the CPU" +
                                          last_words(api));
}

bool Convolutions::try_run(const ConvolutionCall& call) {
  const ConvolutionShape& s = call.shape;
  const Key key = {call.direction, s.in,         s.out,    s.side, s.kernel, s.stride * 16 + s.padding,
                   call.images,    call.element, call.tf32};
  return plans_.run<ConvolutionOperation>(known_[key], call, places_of(call),
                                          [&call] { return text_of(call); });
}

}  // namespace muster::nn::gpu
