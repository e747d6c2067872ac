// SPDX-License-Identifier: Apache-2.0
// What can be said of the CUDA part without a GPU: that NVIDIA's own libraries take our descriptions of
// convolutions, and what is said where something is missing.
#include "muster/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/skip.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/gpu/cuda/cuda_ops.hpp"
#include "worker_sdk/nn/gpu/cuda/image.hpp"
#include "worker_sdk/nn/gpu/cuda/library.hpp"
#include "worker_sdk/nn/gpu/cuda/multiplications.hpp"
#include "worker_sdk/nn/gpu/network/room.hpp"
#include "worker_sdk/nn/plan.hpp"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace muster::nn::gpu {
namespace {

/// Null, after skip(), where there is no driver or no cuDNN 9.
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
  // The linear layers first: products without a plan become convolutions of one pixel.
  std::vector<ConvolutionShape> shapes = {
      {512, 16, 1, 1, 1, 0}, {4096, 128, 1, 1, 1, 0}, {128, 16, 1, 1, 1, 0}, {8, 32, 32, 3, 1, 1}};
  for (const std::string& model : model_names())
    each_step(plan_of(built_in(model, 10)).steps, [&](const PlannedStep& step) {
      const ConvolutionSize& size = step.convolution;
      if (size.out > 0)
        shapes.push_back({padded(size.in), padded(size.out), static_cast<int>(size.side),
                          static_cast<int>(size.kernel), static_cast<int>(size.stride),
                          static_cast<int>(size.padding)});
    });
  for (const ConvolutionShape& shape : shapes)
    for (const Direction direction :
         {Direction::forward, Direction::input_gradient, Direction::weight_gradient})
      for (const Element element : {Element::bf16, Element::f16, Element::f32})
        CHECK_NOTHROW(
            ConvolutionOperation(*api, {direction, shape, 768, element, nullptr, nullptr, nullptr}));
}

TEST_CASE("cuDNN takes the description of every product that linear layers and attention have", "[cudnn]") {
  const Library* const api = library_or_skip();
  if (api == nullptr) return;
  // The batched ones are the heads of attention: tokens, width of a head and of a row.
  constexpr std::int64_t kTokens = 64;
  constexpr std::int64_t kHead = 48;
  constexpr std::int64_t kRow = 576;
  for (const Element element : {Element::bf16, Element::f16, Element::f32}) {
    MultiplyCall call;
    call.element = call.result_element = element;
    call.m = 4096;
    call.n = 1024;
    call.k = 768;
    call.result_row = call.n;
    call.a = {nullptr, call.k, 1};
    call.b = {nullptr, 1, call.k};
    CHECK_NOTHROW(MultiplyOperation(*api, call));
    call.b = {nullptr, call.n, 1};
    CHECK_NOTHROW(MultiplyOperation(*api, call));
    // The gradient of weights is in 32-bit floats.
    call.a = {nullptr, 1, call.m};
    call.result_element = Element::f32;
    CHECK_NOTHROW(MultiplyOperation(*api, call));
    call.batches = 128;
    call.m = call.n = call.result_row = kTokens;
    call.k = kHead;
    call.a = {nullptr, kRow, 1, kTokens * kRow};
    call.b = {nullptr, 1, kRow, kTokens * kRow};
    call.result_batch = kTokens * kTokens;
    call.result_element = element;
    CHECK_NOTHROW(MultiplyOperation(*api, call));
  }
}

TEST_CASE("a product is the convolution of one pixel that lies the same, or none") {
  alignas(16) float memory[4] = {};
  MultiplyCall call;
  call.m = 40;
  call.n = 24;
  call.k = 16;
  call.result = memory;
  call.result_row = call.n;
  call.a = {memory, 16, 1};
  call.b = {memory, 1, 16};
  CHECK(as_convolution(call)->direction == Direction::forward);
  CHECK(as_convolution(call)->shape.out == 24);
  call.b = {memory, 24, 1};
  CHECK(as_convolution(call)->direction == Direction::input_gradient);
  CHECK(as_convolution(call)->images == 40);
  call.a = {memory, 1, 40};
  CHECK(as_convolution(call)->direction == Direction::weight_gradient);
  CHECK(as_convolution(call)->images == 16);
  CHECK(as_convolution(call)->shape.in == 24);
  const auto refused = [&](auto change) {
    MultiplyCall other = call;
    change(other);
    return !as_convolution(other);
  };
  CHECK(refused([](MultiplyCall& c) { c.batches = 2; }));
  CHECK(refused([](MultiplyCall& c) { c.result_row = 32; }));
  CHECK(refused([](MultiplyCall& c) { c.a.column = 48; }));
  CHECK(refused([](MultiplyCall& c) { c.element = Element::bf16; }));
  CHECK(refused([&](MultiplyCall& c) { c.b.data = memory + 1; }));
}

TEST_CASE("products are cuDNN's where their rows begin at multiples of 16 bytes") {
  alignas(16) float memory[4] = {};
  MultiplyCall call;
  call.m = call.n = call.k = call.result_row = 8;
  call.a = call.b = {memory, 8, 1};
  call.result = memory;
  call.element = Element::bf16;
  CHECK(is_aligned(call));
  call.a = {memory, 1, 8};
  CHECK(is_aligned(call));
  call.result_row = 4;  // of 32-bit floats
  CHECK(is_aligned(call));
  call.b.row = 12;
  CHECK_FALSE(is_aligned(call));
  call.element = Element::f32;
  CHECK(is_aligned(call));
  call.batches = 2;
  call.a.batch = 10;
  CHECK_FALSE(is_aligned(call));
}

TEST_CASE("cuDNN refuses a convolution whose extents do not fit", "[cudnn]") {
  const Library* const api = library_or_skip();
  if (api == nullptr) return;
  // Ten channels go in and twelve are said to come out of an image that is smaller than the window.
  const ConvolutionCall call = {
      Direction::forward, {8, 8, 2, 7, 1, 0}, 4, Element::bf16, nullptr, nullptr, nullptr};
  const std::string text = test::error_of([&] { ConvolutionOperation(*api, call); }, ErrorCode::backend);
  CAPTURE(text);
  // Behind the name of the status stands what cuDNN itself has to say.
  CHECK(text.find("cuDNN status") != std::string::npos);
  CHECK(text.find("CUDNN_STATUS_") < text.rfind(": "));
}

TEST_CASE("a cuDNN that fits neither this program nor the driver is refused", "[versions]") {
  CHECK(cudnn_problem(91900, 13000, 13000) == "");
  CHECK(cudnn_problem(90100, 12090, 12020) == "");
  CHECK(cudnn_problem(90100, 12090, 13010) == "");
  CHECK_THAT(cudnn_problem(100000, 13000, 13000), Contains("version 10, and Muster was built for 9; "));
  CHECK_THAT(
      cudnn_problem(91900, 13000, 12080),
      Contains("is made for CUDA 13.0, and the driver is for CUDA 12.8") && Contains("nvidia-cudnn-cu12"));
}

TEST_CASE("floats keep their bits in products unless TF32 is wanted", "[cudnn]") {
  Numbers call;
  const auto wanted = [&](std::vector<cudnnBackendNumericalNote_t> notes) { return is_wanted(call, notes); };
  CHECK(wanted({}));
  CHECK(wanted({CUDNN_NUMERICAL_NOTE_FFT}));
  CHECK_FALSE(wanted({CUDNN_NUMERICAL_NOTE_TENSOR_CORE}));
  call.tf32 = true;
  CHECK(wanted({CUDNN_NUMERICAL_NOTE_TENSOR_CORE}));
  CHECK_FALSE(wanted({CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}));
  CHECK_FALSE(wanted({CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}));
  call.tf32 = false;
  call.element = Element::bf16;
  CHECK(wanted({CUDNN_NUMERICAL_NOTE_TENSOR_CORE}));
  CHECK_FALSE(wanted({CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}));
}

TEST_CASE("where there is no driver or no GPU one line says so and what to do", "[nogpu]") {
  try {
    const Library& api = library();
    int count = 0;
    if (api.cuInit(0) == CUDA_SUCCESS && api.cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 0)
      return test::skip("there is a GPU");
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch) refusal() says the same
  }
  const std::string text = refusal();
  CAPTURE(text);
  CHECK(text.starts_with("training on a GPU is not possible here: "));
  CHECK_THAT(text, Contains("install ") || Contains("nvidia-smi") || Contains("update "));
  CHECK(text.find('\n') == std::string::npos);
}

TEST_CASE("a library that cannot be loaded is named, with the variable that named it", "[.][nolibrary]") {
  const std::string text = refusal();
  CAPTURE(text);
  const std::string file = std::getenv("MUSTER_CUDA_DRIVER_LIBRARY");
  CHECK(text.find("MUSTER_CUDA_DRIVER_LIBRARY names '" + file + "'") != std::string::npos);
}

TEST_CASE("the compiled kernels are embedded as what the driver loads", "[image]") {
  REQUIRE_FALSE(kernel_images().empty());
  for (const KernelImage& image : kernel_images()) {
    CAPTURE(image.architecture, image.is_ptx);
    const auto* const bytes = static_cast<const unsigned char*>(image.data);
    if (image.is_ptx) {
      const std::string text = static_cast<const char*>(image.data);
      CHECK_THAT(text, Contains(".target sm_" + std::to_string(image.architecture)));
      continue;
    }
    CHECK(std::memcmp(bytes, "\177ELF", 4) == 0);
    // Every driver of CUDA 12 loads ABI 7; Blackwell's, in ABI 8, those that know it.
    const bool is_old = image.architecture < 100;
    CHECK(bytes[8] == (is_old ? 7 : 8));
    CHECK(bytes[18] == 190);
    CHECK(bytes[is_old ? 48 : 49] == image.architecture);
  }
  CHECK(kernel_images().back().is_ptx);
}

TEST_CASE("a device gets the newest machine code that it runs, or PTX", "[image]") {
  const KernelImage images[] = {{75, false, nullptr},
                                {80, false, nullptr},
                                {86, false, nullptr},
                                {90, false, nullptr},
                                {90, true, nullptr}};
  const auto chosen = [&](int capability) {
    const KernelImage& image = choose_image(images, capability);
    return std::to_string(image.architecture) + (image.is_ptx ? " PTX" : "");
  };
  CHECK(chosen(75) == "75");
  CHECK(chosen(80) == "80");
  CHECK(chosen(87) == "86");
  CHECK(chosen(90) == "90");
  CHECK(chosen(120) == "90 PTX");
  const std::string text = test::error_of([&] { (void)choose_image(images, 70); }, ErrorCode::unsupported);
  CHECK_THAT(text, Contains("compute capability 7.0"));
}

}  // namespace muster::nn::gpu
