// SPDX-License-Identifier: Apache-2.0
// conv_ceiling MODEL fp32|bf16 BATCH THREADS: images a second if a training step were nothing but the
// convolutions, each by oneDNN's direct method on nhwc maps in the layout of weights that it likes best.
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/cpu/layer.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/network.hpp"
#include "worker_sdk/nn/plan.hpp"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using namespace muster::nn;
using namespace muster::nn::cpu;

constexpr int kRounds = 3;

dnnl::memory zeros(const Desc& desc, const Runtime& rt) {
  dnnl::memory memory(desc, rt.engine);
  std::memset(memory.get_data_handle(), 0, desc.get_size());
  return memory;
}

double best_seconds(const Runtime& rt, const dnnl::primitive& primitive,
                    const std::unordered_map<int, dnnl::memory>& arguments) {
  double best = 1e30;
  for (int round = 0; round <= kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    primitive.execute(rt.stream, arguments);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (round > 0 && took.count() < best) best = took.count();  // the first compiles and allocates
  }
  return best;
}

double seconds(const Runtime& rt, const ConvolutionSize& unit, std::int64_t batch, bool bf16) {
  const auto type = bf16 ? dnnl::memory::data_type::bf16 : kFloat;
  const bool of_images = unit.of_images;
  const std::int64_t in = of_images && bf16 ? 4 : unit.in;  // for three channels there is only the definition
  const std::int64_t out_side = unit.result().side;
  const Desc src({batch, in, unit.side, unit.side}, type, Tag::nhwc);
  const Desc weights({unit.out, in, unit.kernel, unit.kernel}, type, Tag::any);
  const Desc weights_gradient({unit.out, in, unit.kernel, unit.kernel}, kFloat, Tag::any);
  const Desc dst({batch, unit.out, out_side, out_side}, type, Tag::nhwc);
  const std::int64_t pad = unit.padding;
  const ConvolutionForm form = {
      dnnl::algorithm::convolution_direct, {unit.stride, unit.stride}, {pad, pad}, {pad, pad}};
  const auto forward = convolution_forward(rt, form, src, weights, dst);
  const dnnl::memory x = zeros(src, rt), y = zeros(dst, rt);
  double sum = best_seconds(
      rt, dnnl::convolution_forward(forward),
      {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, zeros(forward.weights_desc(), rt)}, {DNNL_ARG_DST, y}});
  const auto by_weights = convolution_backward_weights(rt, form, src, weights_gradient, dst, forward);
  sum += best_seconds(rt, dnnl::convolution_backward_weights(by_weights),
                      {{DNNL_ARG_SRC, x},
                       {DNNL_ARG_DIFF_DST, y},
                       {DNNL_ARG_DIFF_WEIGHTS, zeros(by_weights.diff_weights_desc(), rt)}});
  if (of_images) return sum;
  const auto by_data = convolution_backward_data(rt, form, src, weights, dst, forward);
  return sum + best_seconds(rt, dnnl::convolution_backward_data(by_data),
                            {{DNNL_ARG_DIFF_DST, y},
                             {DNNL_ARG_WEIGHTS, zeros(by_data.weights_desc(), rt)},
                             {DNNL_ARG_DIFF_SRC, x}});
}

std::vector<ConvolutionSize> convolutions(const std::string& model) {
  std::vector<ConvolutionSize> sizes;
  each_step(plan_of(built_in(model, 10)).steps, [&](const PlannedStep& step) {
    if (step.convolution.out > 0) sizes.push_back(step.convolution);
  });
  return sizes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    const std::int64_t batch = std::stol(argv[3]);
    set_threads(std::stoi(argv[4]));
    const Runtime runtime;
    double sum = 0;
    for (const ConvolutionSize& unit : convolutions(argv[1]))
      sum += seconds(runtime, unit, batch, std::string(argv[2]) == "bf16");
    std::printf("%.0f images/s\n", static_cast<double>(batch) / sum);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "conv_ceiling: %s\n", error.what());
    return 1;
  }
}
