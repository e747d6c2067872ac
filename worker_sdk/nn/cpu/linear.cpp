// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/linear.hpp"

#include "worker_sdk/nn/cpu/layer.hpp"
#include "worker_sdk/nn/cpu/pieces.hpp"
#include "worker_sdk/nn/cpu/row_kernels.hpp"

#include <string>
#include <unordered_map>
#include <utility>

namespace muster::nn::cpu {
namespace {

/// What oneDNN keeps for the primitives of one batch size (measured on 2.6): a network of transformers has
/// many of them.
constexpr std::size_t kPlanBytes = 50'000;

}  // namespace

struct Linear::Plan {
  Plan(const Runtime& rt, const LinearShape& shape, const ParameterSlot& weight,
       const ParameterSlot& bias_slot, std::int64_t batch);

  void build_backward(const Runtime& rt, const ParameterSlot& weight, const ParameterSlot& bias_slot);

  std::size_t scratch() const {
    return std::max(
        {shared_scratch(multiply), shared_scratch(weight_gradient), shared_scratch(input_gradient)});
  }

  const Desc src_desc, weights_desc, bias_desc, dst_desc;
  dnnl::inner_product_forward::primitive_desc multiply_desc;
  dnnl::primitive multiply;
  /// Views of the caller's memory, as those of the gradients.
  dnnl::memory src, weights, bias, dst;

  // Built by the first backward().
  dnnl::primitive weight_gradient, input_gradient;
  dnnl::memory dst_gradient, weights_gradient, bias_gradient, src_gradient;
};

Linear::Plan::Plan(const Runtime& rt, const LinearShape& shape, const ParameterSlot& weight,
                   const ParameterSlot& bias_slot, std::int64_t batch)
    : src_desc({batch, shape.in}, kFloat, Tag::ab),
      weights_desc({shape.out, shape.in}, kFloat, Tag::ab),
      bias_desc(shape.bias ? Desc({shape.out}, kFloat, Tag::a) : Desc()),
      dst_desc({batch, shape.out}, kFloat, Tag::ab),
      multiply_desc(inner_product_forward(rt, src_desc, weights_desc, bias_desc, dst_desc)),
      multiply(dnnl::inner_product_forward(multiply_desc)),
      src(view(src_desc, rt, nullptr)),
      weights(view(weights_desc, rt, weight.value)),
      bias(shape.bias ? view(bias_desc, rt, bias_slot.value) : dnnl::memory()),
      dst(view(dst_desc, rt, nullptr)) {}

void Linear::Plan::build_backward(const Runtime& rt, const ParameterSlot& weight,
                                  const ParameterSlot& bias_slot) {
  weight_gradient = dnnl::inner_product_backward_weights(
      inner_product_backward_weights(rt, src_desc, weights_desc, bias_desc, dst_desc, multiply_desc));
  input_gradient = dnnl::inner_product_backward_data(
      inner_product_backward_data(rt, src_desc, weights_desc, dst_desc, multiply_desc));
  dst_gradient = view(dst_desc, rt, nullptr);
  weights_gradient = view(weights_desc, rt, weight.gradient);
  if (bias) bias_gradient = view(bias_desc, rt, bias_slot.gradient);
  src_gradient = view(src_desc, rt, nullptr);
}

Linear::Linear(std::shared_ptr<const Runtime> runtime, const LinearShape& shape)
    : runtime_(std::move(runtime)), shape_(shape) {}

Linear::~Linear() = default;

void Linear::bind(const ParameterSlot& weight, const ParameterSlot& bias) {
  weight_ = weight;
  bias_ = bias;
  plans_.clear();
}

Linear::Plan& Linear::plan_for(std::int64_t batch) {
  std::unique_ptr<Plan>& plan = plans_[batch];
  if (plan == nullptr)
    plan = build("a linear layer on " + std::to_string(batch) + " samples",
                 [&] { return std::make_unique<Plan>(*runtime_, shape_, weight_, bias_, batch); });
  return *plan;
}

namespace {

/// Whether the weights are so many that reading them takes most of the time. oneDNN copies them first, which
/// for few samples takes longer than the product itself, and divides such long sums among its threads, so
/// that results depend on their number.
bool in_panels(const LinearShape& shape) {
  return shape.in >= 1024 && shape.in * shape.out >= std::int64_t{1} << 20;
}

}  // namespace

std::size_t Linear::turned_bytes(std::int64_t rows) const {
  const std::size_t groups = (static_cast<std::size_t>(rows) + kPanelSamples - 1) / kPanelSamples;
  return groups * kPanelSamples * static_cast<std::size_t>(shape_.in) * sizeof(float);
}

void Linear::forward_in_panels(const float* x, std::size_t batch, float* y) {
  const auto in = static_cast<std::size_t>(shape_.in), out = static_cast<std::size_t>(shape_.out);
  const std::size_t groups = (batch + kPanelSamples - 1) / kPanelSamples;
  const auto samples_of = [&](std::size_t group) {
    return std::min(kPanelSamples, batch - group * kPanelSamples);
  };
  turned_.reserve(turned_bytes(static_cast<std::int64_t>(batch)));
  auto* const turned = turned_.data<float>();
  // Parts of the inputs are turned for all samples of a group.
  constexpr std::size_t kPart = 256;
  const std::size_t parts = (in + kPart - 1) / kPart;
  each(groups * parts, [&](std::size_t task) {
    const std::size_t group = task / parts, first = task % parts * kPart, samples = samples_of(group);
    const std::size_t padded = (samples + kLanes - 1) / kLanes * kLanes;
    row_kernels().turn(x + group * kPanelSamples * in + first, in, samples, std::min(kPart, in - first),
                       padded, turned + group * kPanelSamples * in + first * padded);
  });
  each((out + kPanelOutputs - 1) / kPanelOutputs * groups, [&](std::size_t task) {
    const std::size_t group = task % groups, first = task / groups * kPanelOutputs;
    PanelProduct panel;
    panel.outputs = std::min(kPanelOutputs, out - first);
    panel.samples = samples_of(group);
    panel.depth = in;
    panel.weights = weight_.value + first * in;
    panel.bias = shape_.bias ? bias_.value + first : nullptr;
    panel.turned = turned + group * kPanelSamples * in;
    panel.y = y + group * kPanelSamples * out + first;
    panel.pitch = out;
    row_kernels().panel_product(panel);
  });
}

void Linear::forward(const float* x, std::int64_t batch, float* y) {
  if (batch == 0) return;
  if (in_panels(shape_)) return forward_in_panels(x, static_cast<std::size_t>(batch), y);
  const Runtime& rt = *runtime_;
  Plan& plan = plan_for(batch);
  plan.src.set_data_handle(handle(x));
  plan.dst.set_data_handle(y);
  std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, plan.src}, {DNNL_ARG_WEIGHTS, plan.weights}, {DNNL_ARG_DST, plan.dst}};
  if (shape_.bias) arguments.insert({DNNL_ARG_BIAS, plan.bias});
  plan.multiply.execute(rt.stream, arguments);
}

void Linear::backward(const float* x, const float* dy, std::int64_t batch, float* dx) {
  if (batch == 0) return;
  const Runtime& rt = *runtime_;
  Plan& plan = plan_for(batch);
  if (!plan.weight_gradient)
    build("a linear layer backwards", [&] {
      plan.build_backward(rt, weight_, bias_);
      return 0;
    });
  plan.src.set_data_handle(handle(x));
  plan.dst_gradient.set_data_handle(handle(dy));
  std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, plan.src},
                                                     {DNNL_ARG_DIFF_DST, plan.dst_gradient},
                                                     {DNNL_ARG_DIFF_WEIGHTS, plan.weights_gradient}};
  if (shape_.bias) arguments.insert({DNNL_ARG_DIFF_BIAS, plan.bias_gradient});
  plan.weight_gradient.execute(rt.stream, arguments);
  if (dx == nullptr) return;
  plan.src_gradient.set_data_handle(dx);
  plan.input_gradient.execute(rt.stream, {{DNNL_ARG_DIFF_DST, plan.dst_gradient},
                                          {DNNL_ARG_WEIGHTS, plan.weights},
                                          {DNNL_ARG_DIFF_SRC, plan.src_gradient}});
}

Workspace Linear::workspace() const {
  Workspace sum = {turned_.bytes() + plans_.size() * kPlanBytes, 0};
  for (const auto& [batch, plan] : plans_) sum.shared = std::max(sum.shared, plan->scratch());
  return sum;
}

Workspace Linear::workspace_for(std::span<const BatchSize> batches) const {
  Workspace sum;
  std::size_t turned = 0;
  for (const BatchSize& batch : batches) {
    const std::int64_t rows = batch.samples * shape_.tokens;
    if (rows == 0) continue;
    const bool panels = in_panels(shape_);
    if (panels) turned = std::max(turned, Buffer::whole_pages(turned_bytes(rows)));
    if (panels && !batch.trains) continue;
    sum.own += kPlanBytes;
    build("a linear layer on " + std::to_string(rows) + " samples", [&] {
      Plan plan(*runtime_, shape_, {}, {}, rows);
      if (batch.trains) plan.build_backward(*runtime_, {}, {});
      sum.shared = std::max(sum.shared, plan.scratch());
      return 0;
    });
  }
  sum.own += turned;
  return sum;
}

HiddenLinear::HiddenLinear(std::shared_ptr<const Runtime> runtime, const LinearShape& shape)
    : linear_(std::move(runtime), shape) {}

void HiddenLinear::forward(const float* x, std::int64_t batch, float* y) {
  linear_.forward(x, batch, y);
  // Not oneDNN's ReLU, which makes 0 of what is not a number and so hides it from the loss.
  each_piece(static_cast<std::size_t>(batch * linear_.shape().out),
             [&](std::size_t at, std::size_t count) { row_kernels().relu(y + at, count, y + at); });
}

void HiddenLinear::backward(const float* x, const float* y, float* dy, std::int64_t batch, float* dx) {
  each_piece(static_cast<std::size_t>(batch * linear_.shape().out), [&](std::size_t at, std::size_t count) {
    row_kernels().relu_backward(y + at, dy + at, count, dy + at);
  });
  linear_.backward(x, dy, batch, dx);
}

}  // namespace muster::nn::cpu
