// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/cpu/linear.hpp"

#include "worker_sdk/trainer/nn/cpu/layer.hpp"

#include <string>
#include <utility>

namespace muster::nn::cpu {

struct Linear::Plan {
  Plan(const Runtime& rt, const LinearShape& shape, const ParameterSlot& weight,
       const ParameterSlot& bias_slot, std::int64_t batch);

  void build_backward(const Runtime& rt, const ParameterSlot& weight, const ParameterSlot& bias_slot);

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
      bias_desc({shape.out}, kFloat, Tag::a),
      dst_desc({batch, shape.out}, kFloat, Tag::ab),
      multiply_desc(inner_product_forward(rt, src_desc, weights_desc, bias_desc, dst_desc)),
      multiply(dnnl::inner_product_forward(multiply_desc)),
      src(view(src_desc, rt, nullptr)),
      weights(view(weights_desc, rt, weight.value)),
      bias(view(bias_desc, rt, bias_slot.value)),
      dst(view(dst_desc, rt, nullptr)) {}

void Linear::Plan::build_backward(const Runtime& rt, const ParameterSlot& weight,
                                  const ParameterSlot& bias_slot) {
  weight_gradient = dnnl::inner_product_backward_weights(
      inner_product_backward_weights(rt, src_desc, weights_desc, bias_desc, dst_desc, multiply_desc));
  input_gradient = dnnl::inner_product_backward_data(
      inner_product_backward_data(rt, src_desc, weights_desc, dst_desc, multiply_desc));
  dst_gradient = view(dst_desc, rt, nullptr);
  weights_gradient = view(weights_desc, rt, weight.gradient);
  bias_gradient = view(bias_desc, rt, bias_slot.gradient);
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

void Linear::forward(const float* x, std::int64_t batch, float* y) {
  const Runtime& rt = *runtime_;
  Plan& plan = plan_for(batch);
  plan.src.set_data_handle(handle(x));
  plan.dst.set_data_handle(y);
  plan.multiply.execute(rt.stream, {{DNNL_ARG_SRC, plan.src},
                                    {DNNL_ARG_WEIGHTS, plan.weights},
                                    {DNNL_ARG_BIAS, plan.bias},
                                    {DNNL_ARG_DST, plan.dst}});
}

void Linear::backward(const float* x, const float* dy, std::int64_t batch, float* dx) {
  const Runtime& rt = *runtime_;
  Plan& plan = plan_for(batch);
  if (!plan.weight_gradient)
    build("a linear layer backwards", [&] {
      plan.build_backward(rt, weight_, bias_);
      return 0;
    });
  plan.src.set_data_handle(handle(x));
  plan.dst_gradient.set_data_handle(handle(dy));
  plan.src_gradient.set_data_handle(dx);
  plan.weight_gradient.execute(rt.stream, {{DNNL_ARG_SRC, plan.src},
                                           {DNNL_ARG_DIFF_DST, plan.dst_gradient},
                                           {DNNL_ARG_DIFF_WEIGHTS, plan.weights_gradient},
                                           {DNNL_ARG_DIFF_BIAS, plan.bias_gradient}});
  plan.input_gradient.execute(rt.stream, {{DNNL_ARG_DIFF_DST, plan.dst_gradient},
                                          {DNNL_ARG_WEIGHTS, plan.weights},
                                          {DNNL_ARG_DIFF_SRC, plan.src_gradient}});
}

HiddenLinear::HiddenLinear(std::shared_ptr<const Runtime> runtime, const LinearShape& shape)
    : linear_(std::move(runtime), shape) {}

void HiddenLinear::forward(const float* x, std::int64_t batch, float* y) {
  linear_.forward(x, batch, y);
  // Not oneDNN's ReLU, which makes 0 of what is not a number and so hides it from the loss.
  const std::int64_t count = batch * linear_.shape().out;
  for (std::int64_t i = 0; i < count; ++i) y[i] = y[i] <= 0 ? 0 : y[i];
}

void HiddenLinear::backward(const float* x, const float* y, float* dy, std::int64_t batch, float* dx) {
  const std::int64_t count = batch * linear_.shape().out;
  for (std::int64_t i = 0; i < count; ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
  linear_.backward(x, dy, batch, dx);
}

}  // namespace muster::nn::cpu
