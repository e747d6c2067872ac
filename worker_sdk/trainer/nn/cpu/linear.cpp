// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/cpu/linear.hpp"

#include <string>
#include <utility>

namespace muster::nn::cpu {

struct Linear::Plan {
  Plan(const Runtime& rt, const LinearShape& shape, const LayerParameters& parameters, std::int64_t batch);

  void build_backward(const Runtime& rt, const LayerParameters& parameters);

  const Desc src_desc, weights_desc, bias_desc, dst_desc;
  dnnl::inner_product_forward::primitive_desc multiply_desc;
  dnnl::primitive multiply;
  dnnl::memory src, weights, bias, dst;

  // Built by the first backward().
  dnnl::primitive weight_gradient, input_gradient;
  dnnl::memory dst_gradient, weights_gradient, bias_gradient, src_gradient;
};

Linear::Plan::Plan(const Runtime& rt, const LinearShape& shape, const LayerParameters& parameters,
                   std::int64_t batch)
    : src_desc({batch, shape.in}, kFloat, Tag::ab),
      weights_desc({shape.out, shape.in}, kFloat, Tag::ab),
      bias_desc({shape.out}, kFloat, Tag::a),
      dst_desc({batch, shape.out}, kFloat, Tag::ab),
      multiply_desc(inner_product_forward(rt, src_desc, weights_desc, bias_desc, dst_desc)),
      multiply(dnnl::inner_product_forward(multiply_desc)),
      src(view(src_desc, rt, nullptr)),
      weights(view(weights_desc, rt, parameters.weight)),
      bias(view(bias_desc, rt, parameters.bias)),
      dst(dst_desc, rt.engine) {}

void Linear::Plan::build_backward(const Runtime& rt, const LayerParameters& parameters) {
  weight_gradient = dnnl::inner_product_backward_weights(
      inner_product_backward_weights(rt, src_desc, weights_desc, bias_desc, dst_desc, multiply_desc));
  input_gradient = dnnl::inner_product_backward_data(
      inner_product_backward_data(rt, src_desc, weights_desc, dst_desc, multiply_desc));
  dst_gradient = view(dst_desc, rt, nullptr);
  weights_gradient = view(weights_desc, rt, parameters.weight_gradient);
  bias_gradient = view(bias_desc, rt, parameters.bias_gradient);
  src_gradient = dnnl::memory(src_desc, rt.engine);
}

Linear::Linear(std::shared_ptr<const Runtime> runtime, const LinearShape& shape,
               const LayerParameters& parameters)
    : runtime_(std::move(runtime)), shape_(shape), parameters_(parameters) {}

Linear::~Linear() = default;

Linear::Plan& Linear::plan_for(std::int64_t batch) {
  std::unique_ptr<Plan>& plan = plans_[batch];
  if (plan == nullptr)
    plan = build("a linear layer on " + std::to_string(batch) + " samples",
                 [&] { return std::make_unique<Plan>(*runtime_, shape_, parameters_, batch); });
  return *plan;
}

float* Linear::forward(const float* input, std::int64_t batch) {
  const Runtime& rt = *runtime_;
  Plan& plan = plan_for(batch);
  last_ = &plan;
  plan.src.set_data_handle(handle(input));
  plan.multiply.execute(rt.stream, {{DNNL_ARG_SRC, plan.src},
                                    {DNNL_ARG_WEIGHTS, plan.weights},
                                    {DNNL_ARG_BIAS, plan.bias},
                                    {DNNL_ARG_DST, plan.dst}});
  return static_cast<float*>(plan.dst.get_data_handle());
}

float* Linear::backward(const float* gradient) {
  const Runtime& rt = *runtime_;
  Plan& plan = *last_;
  if (!plan.weight_gradient)
    build("a linear layer backwards", [&] {
      plan.build_backward(rt, parameters_);
      return 0;
    });
  plan.dst_gradient.set_data_handle(handle(gradient));
  plan.weight_gradient.execute(rt.stream, {{DNNL_ARG_SRC, plan.src},
                                           {DNNL_ARG_DIFF_DST, plan.dst_gradient},
                                           {DNNL_ARG_DIFF_WEIGHTS, plan.weights_gradient},
                                           {DNNL_ARG_DIFF_BIAS, plan.bias_gradient}});
  plan.input_gradient.execute(rt.stream, {{DNNL_ARG_DIFF_DST, plan.dst_gradient},
                                          {DNNL_ARG_WEIGHTS, plan.weights},
                                          {DNNL_ARG_DIFF_SRC, plan.src_gradient}});
  return static_cast<float*>(plan.src_gradient.get_data_handle());
}

}  // namespace muster::nn::cpu
