// SPDX-License-Identifier: Apache-2.0
#include "muster/error.hpp"
#include "worker_sdk/trainer/nn/gpu/network/resnet.hpp"
#include "worker_sdk/trainer/nn/gpu/network/small_cnn.hpp"

#include <string>
#include <utility>

namespace muster::nn::gpu {
namespace {

constexpr std::int64_t kMostClasses = 2048;

template <typename T>
std::unique_ptr<DeviceNetwork> make(std::string_view model, std::int64_t classes, std::int64_t capacity,
                                    Ops& ops, DeviceSum sum) {
  if (model == "small-cnn") return std::make_unique<SmallCnn<T>>(model_spec(model, classes), capacity, ops);
  return std::make_unique<ResNet<T>>(plan_resnet18(model == "resnet18-imagenet-stem", classes), capacity, ops,
                                     std::move(sum));
}

}  // namespace

std::unique_ptr<DeviceNetwork> make_device_network(std::string_view model, Precision precision,
                                                   std::int64_t classes, std::int64_t capacity, Ops& ops,
                                                   DeviceSum sum) {
  (void)model_spec(model, classes);  // says what is wrong with the names and numbers
  if (classes > kMostClasses)
    throw Error(ErrorCode::unsupported, "on a GPU a model tells at most " + std::to_string(kMostClasses) +
                                            " classes apart, not " + std::to_string(classes));
  ops.allow_tf32(precision == Precision::tf32);
  return precision == Precision::bf16 ? make<Bf16>(model, classes, capacity, ops, std::move(sum))
                                      : make<float>(model, classes, capacity, ops, std::move(sum));
}

}  // namespace muster::nn::gpu
