// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/models/make_network.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/cpu/layers.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/models/list_network.hpp"
#include "worker_sdk/nn/segments.hpp"

namespace muster::nn {

std::size_t ModelSpec::parameter_count() const {
  std::size_t sum = 0;
  for (const ParameterSpec& parameter : parameters) sum += parameter.elements();
  return sum;
}

ModelSpec model_spec(std::string_view model, std::int64_t classes) {
  return plan_of(built_in(model, classes)).spec;
}

std::unique_ptr<Network> make_network(std::string_view model, const NetworkOptions& options) {
  return make_network(built_in(model, options.classes), options);
}

std::unique_ptr<Network> make_network(const Description& description, const NetworkOptions& options) {
  Plan plan = plan_of(description);
  if (options.precision == Precision::tf32 || options.precision == Precision::f16)
    throw Error(
        ErrorCode::unsupported,
        std::string(options.precision == Precision::tf32 ? "tf32" : "fp16") +
            " is a precision of GPUs, and this network is computed by processors; use fp32 or bf16, or "
            "train on a GPU");
  if (!supports(options.precision))
    throw Error(ErrorCode::unsupported,
                "this processor has no instructions for bf16 (AVX512-BF16 or AMX); use fp32");
  check_steps(plan, [](const PlannedStep& step) {
    const bool fits = step.out.kind != ValueShape::Kind::map || step.out.channels % 16 == 0;
    return fits ? std::string()
                : "makes maps of " + std::to_string(step.out.channels) +
                      " channels; on processors give a multiple of 16";
  });
  set_segments(plan, options.activation_checkpoints);
  return std::make_unique<ListNetwork<cpu::Layers>>(std::move(plan), options);
}

}  // namespace muster::nn
