// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/models/make.hpp"

#include "muster/error.hpp"
#include "worker_sdk/trainer/nn/gpu/network/layers.hpp"

#include <string>
#include <utility>

namespace muster::nn::gpu {

std::unique_ptr<Network> make_device_network(std::string_view model, Precision precision,
                                             std::int64_t classes, std::int64_t capacity, Ops& ops,
                                             DeviceSum sum) {
  check_model(model, classes);
  if (classes > kMostChannels)
    throw Error(ErrorCode::unsupported, "on a GPU a model tells at most " + std::to_string(kMostChannels) +
                                            " classes apart, not " + std::to_string(classes));
  const RoomOptions options = {ops, capacity, precision, std::move(sum)};
  return precision == Precision::bf16 ? make_model<Layers<Bf16>>(model, classes, options)
                                      : make_model<Layers<float>>(model, classes, options);
}

}  // namespace muster::nn::gpu
