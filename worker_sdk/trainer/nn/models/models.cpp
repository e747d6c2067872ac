// SPDX-License-Identifier: Apache-2.0
#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/trainer/nn/cpu/resnet.hpp"
#include "worker_sdk/trainer/nn/cpu/small_network.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <algorithm>
#include <string>

namespace muster::nn {
namespace {

constexpr std::string_view kResNet = "resnet18";
constexpr std::string_view kResNetImageNet = "resnet18-imagenet-stem";
constexpr std::string_view kSmallCnn = "small-cnn";

void check(std::string_view model, std::int64_t classes) {
  const std::vector<std::string> names = model_names();
  if (std::find(names.begin(), names.end(), model) == names.end())
    throw Error(ErrorCode::invalid_argument,
                "there is no model \"" + std::string(model) + "\"; choose one of: " + joined(names));
  if (classes < 2)
    throw Error(ErrorCode::invalid_argument,
                "a model cannot tell " + std::to_string(classes) + " classes apart; give at least 2");
}

}  // namespace

std::size_t ModelSpec::parameter_count() const {
  std::size_t sum = 0;
  for (const ParameterSpec& parameter : parameters) sum += parameter.elements();
  return sum;
}

std::vector<std::string> model_names() {
  return {std::string(kResNet), std::string(kResNetImageNet), std::string(kSmallCnn)};
}

ModelSpec model_spec(std::string_view model, std::int64_t classes) {
  check(model, classes);
  if (model == kSmallCnn) return cpu::small_cnn_spec(classes);
  return plan_resnet18(model == kResNetImageNet, classes).spec;
}

std::unique_ptr<Network> make_network(std::string_view model, const NetworkOptions& options) {
  check(model, options.classes);
  if (options.precision == Precision::tf32)
    throw Error(
        ErrorCode::unsupported,
        "tf32 is a precision of GPUs, and this network is computed by processors; use fp32 or bf16, or "
        "train on a GPU");
  if (!supports(options.precision))
    throw Error(ErrorCode::unsupported,
                "this processor has no instructions for bf16 (AVX512-BF16 or AMX); use fp32");
  if (model == kSmallCnn) return std::make_unique<cpu::SmallNetwork>(options);
  return std::make_unique<cpu::ResNet>(plan_resnet18(model == kResNetImageNet, options.classes), options);
}

}  // namespace muster::nn
