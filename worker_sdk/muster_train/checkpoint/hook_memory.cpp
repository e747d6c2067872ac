// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/checkpoint/hook_memory.hpp"

#include <algorithm>
#include <utility>

namespace muster::train {
namespace {

std::string name_of(const HookState& state) {
  return kHookPrefix + state.name;
}

}  // namespace

HookMemory::HookMemory(std::vector<HookState> states, std::string layout, ProcessGroup* group)
    : states_(std::move(states)), layout_(std::move(layout)), group_(group), all_(states_.size()) {
  if (group_ == nullptr || group_->rank() != 0) return;
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (states_[i].differs_by_rank)
      all_[i].resize(states_[i].values.size() * static_cast<std::size_t>(group_->size()));
}

void HookMemory::gather() {
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (states_[i].differs_by_rank)
      group_->run(operation_of(Collective::gather, states_[i].values.size(), DataType::f32,
                               states_[i].values.data(), all_[i].data()));
}

std::vector<checkpoint::TensorView> HookMemory::tensors() const {
  std::vector<checkpoint::TensorView> tensors;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const HookState& state = states_[i];
    const auto elements = static_cast<std::int64_t>(state.values.size());
    if (state.differs_by_rank)
      tensors.push_back({name_of(state), checkpoint::Type::f32, {group_->size(), elements}, all_[i].data()});
    else
      tensors.push_back({name_of(state), checkpoint::Type::f32, {elements}, state.values.data()});
  }
  return tensors;
}

bool HookMemory::fits(const checkpoint::TensorFiles& file, const HookState& state) const {
  const checkpoint::TensorFiles::Tensor* const tensor = file.find(name_of(state));
  if (tensor == nullptr || tensor->type != checkpoint::Type::f32) return false;
  const auto elements = static_cast<std::int64_t>(state.values.size());
  return tensor->shape ==
         (state.differs_by_rank ? checkpoint::Shape{group_->size(), elements} : checkpoint::Shape{elements});
}

std::string HookMemory::read(const checkpoint::TensorFiles& file, const std::string& layout) {
  if (states_.empty()) return "";
  const auto all_fit = [&] {
    return std::all_of(states_.begin(), states_.end(),
                       [&](const HookState& state) { return fits(file, state); });
  };
  if (layout != layout_ || !all_fit())
    return "what the compression of gradients remembered starts anew: it was another one, or on another "
           "number of ranks";
  for (std::size_t i = 0; i < states_.size(); ++i)
    file.read_floats(*file.find(name_of(states_[i])),
                     states_[i].differs_by_rank ? std::span<float>(all_[i]) : states_[i].values);
  return "";
}

void HookMemory::share() {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const std::span<float> values = states_[i].values;
    if (states_[i].differs_by_rank)
      group_->run(
          operation_of(Collective::scatter, values.size(), DataType::f32, all_[i].data(), values.data()));
    else
      group_->broadcast(values.data(), values.size_bytes(), 0);
  }
}

}  // namespace muster::train
