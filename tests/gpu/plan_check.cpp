// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/plan_check.hpp"

#include "worker_sdk/nn/gpu/cuda/convolutions.hpp"
#include "worker_sdk/nn/gpu/cuda/cuda_ops.hpp"
#include "worker_sdk/nn/gpu/cuda/library.hpp"
#include "worker_sdk/nn/gpu/cuda/multiplications.hpp"
#include "worker_sdk/nn/gpu/cuda/plans.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace muster::nn::gpu {
namespace {

/// Rounded to TF32, a float of these bytes is off by 2e-4 of itself, up or down.
constexpr unsigned char kByte = 0x35;
constexpr double kLastBits = 2e-5;

double operand() {
  float value = 0;
  std::memset(&value, kByte, sizeof(value));
  return static_cast<double>(value);
}

/// Plans over memory whose operands are all the same number.
class Checker {
 public:
  Checker() : ops_(0, false), api_(library()), plans_(api_, nullptr, workspace(), kWorkspaceBytes, false) {
    for (const void** place : {&a_, &b_}) {
      void* const memory = ops_.allocate(kBytes, "an operand");
      check(api_, api_.cuMemsetD8Async(plugin::number_of(memory), kByte, kBytes, nullptr),
            "filling an operand");
      *place = memory;
    }
    result_ = ops_.allocate(kBytes, "a result");
  }

  void product(std::int64_t m, std::int64_t n, std::int64_t k, bool turned_a, bool turned_b) {
    MultiplyCall call;
    call.m = m, call.n = n, call.k = k;
    call.a = {a_, turned_a ? 1 : k, turned_a ? m : 1, m * k};
    call.b = {b_, turned_b ? 1 : n, turned_b ? k : 1, k * n};
    call.result = result_, call.result_row = n, call.result_batch = m * n;
    const std::string name = std::string("product ") + (turned_a ? "T" : "N") + (turned_b ? "T" : "N");
    // Without TF32 none of them is taken, whatever its notes say.
    judge<MultiplyOperation>(false, name, call, {{'a', 'b', 'c'}, {a_, b_, result_}}, k, m * n, 0);
    if (const auto convolution = as_convolution(call))
      convolve(name + " as a convolution", *convolution, k, m * n, 0);
  }

  void convolve(const std::string& name, const ConvolutionCall& call, std::int64_t summed, std::int64_t count,
                std::int64_t first) {
    judge<ConvolutionOperation>(true, name, call, places_of(call), summed, count, first);
  }

  ConvolutionCall spatial(Direction direction) const {
    return {direction, {64, 64, 16, 3, 1, 1}, 8, Element::f32, a_, b_, result_, false};
  }

  bool passed() const { return passed_; }

 private:
  static constexpr std::size_t kBytes = std::size_t{32} << 20;

  static constexpr std::size_t kWorkspaceBytes = std::size_t{256} << 20;

  void* workspace() { return ops_.allocate(kWorkspaceBytes, "workspace"); }

  template <typename Operation, typename Call>
  void judge(bool usable, const std::string& name, const Call& call, const TensorPlaces& places,
             std::int64_t summed, std::int64_t count, std::int64_t first) {
    const Operation operation(api_, call);
    bool has_plan = !usable;
    plans_.each_proposed(operation.get(), [&](const Proposal& proposal) {
      check(api_, api_.cuMemsetD8Async(plugin::number_of(result_), 0, kBytes, nullptr), "clearing a result");
      std::string notes;
      for (const auto note : proposal.notes) notes += " " + std::to_string(static_cast<int>(note));
      const bool wanted = usable && is_wanted({Element::f32, false}, proposal.notes);
      std::string said = "no plan";
      bool right = true;
      if (proposal.plan != nullptr) {
        plans_.execute(*proposal.plan, places, [&] { return name; });
        const double off = farthest(summed, count, first);
        right = !wanted || off < kLastBits;
        has_plan = has_plan || wanted;
        said = "off by " + std::to_string(off * 1e6) + " millionths";
      }
      passed_ = passed_ && right;
      std::printf("%s: engine %lld, notes%s, %s, %s%s\n", name.c_str(),
                  static_cast<long long>(proposal.engine), notes.c_str(), wanted ? "wanted" : "refused",
                  said.c_str(), right ? "" : ": FAILED");
    });
    if (has_plan) return;
    passed_ = false;
    std::printf("%s: no plan that may be taken: FAILED\n", name.c_str());
  }

  double farthest(std::int64_t summed, std::int64_t count, std::int64_t first) {
    std::vector<float> values(static_cast<std::size_t>(first + count));
    check(api_,
          api_.cuMemcpyDtoHAsync(values.data(), plugin::number_of(result_), values.size() * sizeof(float),
                                 nullptr),
          "reading a result");
    check(api_, api_.cuStreamSynchronize(nullptr), "reading a result");
    const double expected = static_cast<double>(summed) * operand() * operand();
    double worst = 0;
    for (auto i = static_cast<std::size_t>(first); i < values.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(values[i]) / expected - 1));
    return worst;
  }

  CudaOps ops_;
  const Library& api_;
  Plans plans_;
  const void* a_ = nullptr;
  const void* b_ = nullptr;
  void* result_ = nullptr;
  bool passed_ = true;
};

}  // namespace

bool check_plans() {
  Checker checker;
  for (const std::int64_t m : {75, 192, 768})
    for (const bool turned_a : {false, true})
      for (const bool turned_b : {false, true})
        checker.product(m, 192, 768, turned_a && m % 4 == 0, turned_b);
  // A pixel within the map, whose sum has all nine weights of each channel.
  checker.convolve("convolution of 3 x 3", checker.spatial(Direction::forward), 9 * 64, 1, 64 * (16 * 8 + 8));
  checker.convolve("its input gradient", checker.spatial(Direction::input_gradient), 9 * 64, 1,
                   64 * (16 * 8 + 8));
  // The middle weight of a channel, which all pixels of all images have moved.
  checker.convolve("its weight gradient", checker.spatial(Direction::weight_gradient), 8 * 16 * 16, 1,
                   64 * 4);
  return checker.passed();
}

}  // namespace muster::nn::gpu
