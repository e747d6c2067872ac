// SPDX-License-Identifier: Apache-2.0
// What can be said of the CUDA part without a GPU: that NVIDIA's own libraries take our descriptions of
// convolutions, and what is said where something is missing.
#include "muster/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/skip.hpp"
#include "worker_sdk/trainer/nn/gpu/cuda/cuda_ops.hpp"
#include "worker_sdk/trainer/nn/gpu/cuda/library.hpp"
#include "worker_sdk/trainer/nn/resnet_spec.hpp"

#include <cstring>
#include <string>
#include <vector>

namespace muster::nn::gpu {
namespace {

/// Null, after skip(), where CUDA 13 and cuDNN 9 are not installed.
const Library* library_or_skip() {
  try {
    return &library();
  } catch (const Error& error) {
    test::skip(error.what());
    return nullptr;
  }
}

std::string refusal() {
  return test::error_of([] { const CudaOps ops(0, false); }, ErrorCode::unsupported);
}

}  // namespace

TEST_CASE("cuDNN takes the description of every convolution that the networks have", "[cudnn]") {
  const Library* const api = library_or_skip();
  if (api == nullptr) return;
  // The linear layers first.
  std::vector<ConvolutionShape> shapes = {
      {512, 16, 1, 1, 1, 0}, {4096, 128, 1, 1, 1, 0}, {128, 16, 1, 1, 1, 0}, {8, 32, 32, 3, 1, 1}};
  const auto add = [&](const ResNetUnit& unit) {
    const auto kernel = static_cast<int>(unit.kernel);
    shapes.push_back({static_cast<int>(unit.in < 8 ? 8 : unit.in), static_cast<int>(unit.out),
                      static_cast<int>(unit.side), kernel, static_cast<int>(unit.stride), kernel / 2});
  };
  for (const bool imagenet : {true, false}) {
    const ResNetPlan plan = plan_resnet18(imagenet, 10);
    add(plan.stem);
    for (const ResNetBlock& block : plan.blocks) {
      add(block.first);
      add(block.second);
      if (block.has_shortcut) add(block.shortcut);
    }
  }
  for (const ConvolutionShape& shape : shapes)
    for (const Direction direction :
         {Direction::forward, Direction::input_gradient, Direction::weight_gradient})
      for (const bool bf16 : {true, false})
        CHECK_NOTHROW(ConvolutionOperation(*api, {direction, shape, 768, bf16, nullptr, nullptr, nullptr}));
}

TEST_CASE("cuDNN refuses a convolution whose extents do not fit", "[cudnn]") {
  const Library* const api = library_or_skip();
  if (api == nullptr) return;
  // Ten channels go in and twelve are said to come out of an image that is smaller than the window.
  const ConvolutionCall call = {Direction::forward, {8, 8, 2, 7, 1, 0}, 4, true, nullptr, nullptr, nullptr};
  const std::string text = test::error_of([&] { ConvolutionOperation(*api, call); }, ErrorCode::backend);
  CAPTURE(text);
  // Behind the name of the status stands what cuDNN itself has to say.
  CHECK(text.find("cuDNN status") != std::string::npos);
  CHECK(text.find("CUDNN_STATUS_") < text.rfind(": "));
}

TEST_CASE("a library of another major version than the headers is refused", "[versions]") {
  CHECK(version_problem("cuDNN", 9, 9).empty());
  CHECK(version_problem("cuDNN", 8, 9).find("version 8, and Muster was built for 9; install") !=
        std::string::npos);
  CHECK_FALSE(version_problem("the runtime of CUDA", 14, 13).empty());
}

TEST_CASE("floats keep their bits in products unless TF32 is wanted", "[cudnn]") {
  ConvolutionCall call = {Direction::forward, {8, 8, 8, 3, 1, 1}, 4, false, nullptr, nullptr, nullptr};
  const auto wanted = [&](std::vector<cudnnBackendNumericalNote_t> notes) { return is_wanted(call, notes); };
  CHECK(wanted({}));
  CHECK(wanted({CUDNN_NUMERICAL_NOTE_FFT}));
  CHECK_FALSE(wanted({CUDNN_NUMERICAL_NOTE_TENSOR_CORE}));
  call.tf32 = true;
  CHECK(wanted({CUDNN_NUMERICAL_NOTE_TENSOR_CORE}));
  CHECK_FALSE(wanted({CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}));
  CHECK_FALSE(wanted({CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}));
  call.tf32 = false;
  call.bf16 = true;
  CHECK(wanted({CUDNN_NUMERICAL_NOTE_TENSOR_CORE}));
  CHECK_FALSE(wanted({CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}));
}

TEST_CASE("where there is no driver or no GPU one line says so and what to do", "[nogpu]") {
  const Library* const api = library_or_skip();
  if (api == nullptr) return;
  int count = 0;
  if (api->cudaGetDeviceCount(&count) == cudaSuccess && count > 0) return test::skip("there is a GPU");
  const std::string text = refusal();
  CAPTURE(text);
  CHECK(text.starts_with("training on a GPU is not possible here: "));
  CHECK(text.find("train on the CPU") != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
}

TEST_CASE("a library that cannot be loaded is named, with the variable that named it", "[.][nolibrary]") {
  const std::string text = refusal();
  CAPTURE(text);
  CHECK(text.find("MUSTER_CUDNN_LIBRARY names '/nonexistent/libcudnn.so'") != std::string::npos);
}

TEST_CASE("the compiled kernels are embedded as what the runtime loads", "[image]") {
  // The first word of a fat binary.
  const unsigned char magic[] = {0x50, 0xED, 0x55, 0xBA};
  CHECK(std::memcmp(kernel_image(), magic, sizeof(magic)) == 0);
}

}  // namespace muster::nn::gpu
