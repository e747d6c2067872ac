// SPDX-License-Identifier: Apache-2.0
// The kernels of worker_sdk/nn/gpu on the host. Blocks, and threads between two barriers, run from
// the last to the first, and shared memory begins as what it held before: nothing may depend on either.
#include "tests/fakes/cuda/device/kernels.hpp"

#include "tests/unit/worker_sdk/nn/gpu/host_arithmetic.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"

#include <cstring>
#include <iterator>
#include <memory>

namespace fake {
namespace {

namespace gpu = muster::nn::gpu;

template <typename K>
void run(const void* argument, int blocks, int threads) {
  static_assert(sizeof(K) <= kArgumentBytes);
  const K& kernel = *static_cast<const K*>(argument);
  using Shared = gpu::SharedOf<K>;
  const auto shared = std::make_unique<Shared>();
  std::memset(static_cast<void*>(shared.get()), 0xff, sizeof(Shared));
  for (int block = blocks - 1; block >= 0; --block)
    for (int phase = 0; phase < gpu::phases_of<K>(); ++phase)
      for (int thread = threads - 1; thread >= 0; --thread) kernel.phase(phase, {block, thread}, *shared);
}

#define FAKE_KERNEL(K, name) {"muster_" #name, sizeof(gpu::K), gpu::threads_of<gpu::K>(), &run<gpu::K>},

using gpu::Bf16;
using gpu::F16;
constexpr Kernel kKernels[] = {MUSTER_GPU_KERNELS(FAKE_KERNEL)};

}  // namespace

const Kernel* find_kernel(const char* name, std::uint32_t& number) {
  for (number = 0; number < std::size(kKernels); ++number)
    if (std::strcmp(kKernels[number].name, name) == 0) return &kKernels[number];
  return nullptr;
}

const Kernel* kernel_at(std::uint32_t number) {
  return number < std::size(kKernels) ? &kKernels[number] : nullptr;
}

namespace {

gpu::ConvolutionCall call_of(const Convolution& c) {
  gpu::ConvolutionCall call{};
  call.shape = {c.in, c.out, c.side, c.kernel, c.stride, c.padding};
  call.images = c.images;
  call.element = static_cast<gpu::Element>(c.element);
  switch (c.result) {
    case Convolution::Result::output:
      call.direction = gpu::Direction::forward;
      call.a = c.x;
      call.b = c.w;
      call.result = const_cast<void*>(c.y);
      break;
    case Convolution::Result::input_gradient:
      call.direction = gpu::Direction::input_gradient;
      call.a = c.y;
      call.b = c.w;
      call.result = const_cast<void*>(c.x);
      break;
    case Convolution::Result::weight_gradient:
      call.direction = gpu::Direction::weight_gradient;
      call.a = c.x;
      call.b = c.y;
      call.result = const_cast<void*>(c.w);
      break;
  }
  return call;
}

std::int64_t results_of(const gpu::ConvolutionCall& call) {
  const gpu::ConvolutionShape& s = call.shape;
  switch (call.direction) {
    case gpu::Direction::forward:
      return call.images * s.out_side() * s.out_side() * s.out;
    case gpu::Direction::input_gradient:
      return call.images * s.side * s.side * s.in;
    default:
      return std::int64_t{s.out} * s.kernel * s.kernel * s.in;
  }
}

gpu::MultiplyCall call_of(const Product& p) {
  gpu::MultiplyCall call;
  call.batches = p.batches;
  call.m = p.m;
  call.n = p.n;
  call.k = p.k;
  call.a = {p.a.data, p.a.row, p.a.column, p.a.batch};
  call.b = {p.b.data, p.b.row, p.b.column, p.b.batch};
  call.result = const_cast<void*>(p.c.data);
  call.result_row = p.c.row;
  call.result_batch = p.c.batch;
  call.element = static_cast<gpu::Element>(p.element);
  call.result_element = static_cast<gpu::Element>(p.result_element);
  return call;
}

template <typename T>
void scale(T* values, std::int64_t count, float factor) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = gpu::from_float<T>(gpu::to_float(values[i]) * factor);
}

/// Multiplies `count` results from element number `first` on.
void scale(void* results, std::int64_t first, std::int64_t count, Element element, float factor) {
  switch (element) {
    case Element::f32:
      return scale(static_cast<float*>(results) + first, count, factor);
    case Element::bf16:
      return scale(static_cast<gpu::Bf16*>(results) + first, count, factor);
    case Element::f16:
      return scale(static_cast<gpu::F16*>(results) + first, count, factor);
  }
}

}  // namespace

void multiply(const Product& product) {
  if (product.workspace_bytes > 0) std::memset(product.workspace, 0xff, product.workspace_bytes);
  const gpu::MultiplyCall call = call_of(product);
  gpu::multiply_by_definition(call);
  if (product.factor == 1) return;
  for (std::int64_t batch = 0; batch < call.batches; ++batch)
    for (std::int64_t row = 0; row < call.m; ++row)
      scale(call.result, batch * call.result_batch + row * call.result_row, call.n, product.result_element,
            product.factor);
}

void convolve(const Convolution& convolution) {
  // A plan may write all of the workspace that it asked for.
  if (convolution.workspace_bytes > 0) std::memset(convolution.workspace, 0xff, convolution.workspace_bytes);
  const gpu::ConvolutionCall call = call_of(convolution);
  gpu::convolve_by_definition(call);
  if (convolution.factor != 1)
    scale(call.result, 0, results_of(call), convolution.element, convolution.factor);
}

}  // namespace fake
