// SPDX-License-Identifier: Apache-2.0
// The tensors of a learner as files hold them.
#pragma once

#include "worker_sdk/nn/checkpoint/tensor.hpp"
#include "worker_sdk/nn/learner/learner.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::train {

inline std::vector<checkpoint::TensorView> views(const std::vector<NamedTensor>& tensors) {
  std::vector<checkpoint::TensorView> result;
  result.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors)
    result.push_back({tensor.name, checkpoint::Type::f32, tensor.shape, tensor.values,
                      checkpoint::Slice{tensor.first, tensor.elements}});
  return result;
}

inline std::vector<checkpoint::Destination> destinations(const std::vector<NamedTensor>& tensors) {
  std::vector<checkpoint::Destination> result;
  result.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors)
    result.push_back(
        {tensor.name, tensor.shape, tensor.values, checkpoint::Slice{tensor.first, tensor.elements}});
  return result;
}

/// With what PyTorch's batch norm has besides: it counts its batches, beside each running_var. `batches`
/// outlives the views.
inline std::vector<checkpoint::TensorView> torch_views(const std::vector<checkpoint::TensorView>& model,
                                                       const std::int64_t& batches) {
  std::vector<checkpoint::TensorView> tensors;
  constexpr std::string_view kVariance = ".running_var";
  for (const checkpoint::TensorView& tensor : model) {
    const std::string& name = tensor.name;
    tensors.push_back(tensor);
    if (name.ends_with(kVariance))
      tensors.push_back({name.substr(0, name.size() - kVariance.size()) + ".num_batches_tracked",
                         checkpoint::Type::i64,
                         {},
                         &batches});
  }
  return tensors;
}

}  // namespace muster::train
