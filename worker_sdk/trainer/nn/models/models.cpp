// SPDX-License-Identifier: Apache-2.0
#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/trainer/nn/cpu/layers.hpp"
#include "worker_sdk/trainer/nn/models/make.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <algorithm>
#include <string>

namespace muster::nn {

void check_model(std::string_view model, std::int64_t classes) {
  const std::vector<std::string> names = model_names();
  if (std::find(names.begin(), names.end(), model) == names.end())
    throw Error(ErrorCode::invalid_argument,
                "there is no model \"" + std::string(model) + "\"; choose one of: " + joined(names));
  if (classes < 2)
    throw Error(ErrorCode::invalid_argument,
                "a model cannot tell " + std::to_string(classes) + " classes apart; give at least 2");
}

std::size_t ModelSpec::parameter_count() const {
  std::size_t sum = 0;
  for (const ParameterSpec& parameter : parameters) sum += parameter.elements();
  return sum;
}

std::vector<std::string> model_names() {
  return {std::string(kResNet), std::string(kResNetImageNet), std::string(kSmallCnn)};
}

ModelSpec small_cnn_spec(std::int64_t classes) {
  constexpr std::int64_t kFeatures = 4096;  // 64 channels of 8 x 8
  constexpr std::int64_t kHidden = 128;
  ModelSpec spec;
  spec.name = kSmallCnn;
  spec.classes = classes;
  spec.parameters = {{"conv1.weight", {32, 3, 3, 3}},      {"conv1.bias", {32}, false},
                     {"conv2.weight", {64, 32, 3, 3}},     {"conv2.bias", {64}, false},
                     {"fc1.weight", {kHidden, kFeatures}}, {"fc1.bias", {kHidden}, false},
                     {"fc2.weight", {classes, kHidden}},   {"fc2.bias", {classes}, false}};
  return spec;
}

ModelSpec model_spec(std::string_view model, std::int64_t classes) {
  check_model(model, classes);
  if (model == kSmallCnn) return small_cnn_spec(classes);
  return plan_resnet18(model == kResNetImageNet, classes).spec;
}

std::unique_ptr<Network> make_network(std::string_view model, const NetworkOptions& options) {
  check_model(model, options.classes);
  if (options.precision == Precision::tf32)
    throw Error(
        ErrorCode::unsupported,
        "tf32 is a precision of GPUs, and this network is computed by processors; use fp32 or bf16, or "
        "train on a GPU");
  if (!supports(options.precision))
    throw Error(ErrorCode::unsupported,
                "this processor has no instructions for bf16 (AVX512-BF16 or AMX); use fp32");
  return make_model<cpu::Layers>(model, options.classes, options);
}

}  // namespace muster::nn
