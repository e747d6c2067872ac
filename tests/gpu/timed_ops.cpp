// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/timed_ops.hpp"

#include "muster/error.hpp"
#include "tests/gpu/kernel_bytes.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace muster::nn::gpu {
namespace {

std::string name_of(const ConvolutionCall& call) {
  const ConvolutionShape& shape = call.shape;
  const char* const direction = call.direction == Direction::forward          ? "forward"
                                : call.direction == Direction::input_gradient ? "input gradient"
                                                                              : "weight gradient";
  const auto text = [](int number) { return std::to_string(number); };
  return std::string("convolution, ") + direction + ", " + text(shape.in) + " x " + text(shape.side) + " x " +
         text(shape.side) + " to " + text(shape.out) + ", window " + text(shape.kernel) + ", stride " +
         text(shape.stride);
}

std::string name_of(const MultiplyCall& call) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const std::string sizes =
      text(call.m) + " x " + text(call.k) + " by " + text(call.k) + " x " + text(call.n);
  return call.batches == 1 ? "product, " + sizes : text(call.batches) + " products, " + sizes;
}

}  // namespace

void TimedOps::timed(std::string name, double bytes, double operations, const std::function<void()>& call) {
  const std::size_t from = marks_.put(device_.stream());
  call();
  calls_.push_back({std::move(name), bytes, operations, from, marks_.put(device_.stream())});
}

void TimedOps::convolve(const ConvolutionCall& call) {
  timed(name_of(call), bytes_of(call), operations_of(call), [&] { device_.convolve(call); });
}

void TimedOps::multiply(const MultiplyCall& call) {
  timed(name_of(call), bytes_of(call), operations_of(call), [&] { device_.multiply(call); });
}

void TimedOps::launch(KernelNumber number, const void* kernel, const Grid& grid) {
  switch (number) {
#define MUSTER_GPU_CASE(Kernel, name)                                     \
  case KernelNumber::name:                                                \
    return timed(#name, bytes_of(*static_cast<const Kernel*>(kernel)), 0, \
                 [&] { device_.launch(number, kernel, grid); });
    MUSTER_GPU_KERNELS(MUSTER_GPU_CASE)
#undef MUSTER_GPU_CASE
    case KernelNumber::count:
      break;
  }
}

std::unique_ptr<Graph> TimedOps::capture(const std::function<void()>&) {
  throw Error(ErrorCode::invalid_argument, "calls that are timed one by one cannot be recorded");
}

std::vector<CallTime> TimedOps::take() {
  device_.synchronize();
  std::map<std::string, CallTime> sums;
  for (const Call& call : calls_) {
    CallTime& sum = sums[call.name];
    sum.name = call.name;
    ++sum.calls;
    sum.seconds += marks_.seconds(call.from, call.to);
    sum.bytes += call.bytes;
    sum.operations += call.operations;
  }
  calls_.clear();
  marks_.clear();
  std::vector<CallTime> result;
  for (auto& [name, sum] : sums) result.push_back(std::move(sum));
  std::stable_sort(result.begin(), result.end(),
                   [](const CallTime& one, const CallTime& other) { return one.seconds > other.seconds; });
  return result;
}

}  // namespace muster::nn::gpu
