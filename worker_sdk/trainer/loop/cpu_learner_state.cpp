// SPDX-License-Identifier: Apache-2.0
// The tensors of a learner by name, for checkpoints and exports.
#include "worker_sdk/trainer/loop/cpu_learner.hpp"

namespace muster::train {
namespace {

void append_arena(std::vector<NamedTensor>& tensors, const nn::ModelSpec& spec, const std::string& prefix,
                  float* arena, const Reducer& reducer) {
  for (std::size_t i = 0; i < spec.parameters.size(); ++i)
    tensors.push_back(
        {prefix + spec.parameters[i].name, spec.parameters[i].shape, arena + reducer.offset(i)});
}

}  // namespace

std::vector<NamedTensor> CpuLearner::model_tensors(bool averaged) {
  std::vector<NamedTensor> tensors;
  const bool average = averaged && average_ && average_->updates() > 0;
  append_arena(tensors, spec(), "", average ? average_->state().values.data() : values_.data(), *reducer_);
  for (std::size_t i = 0; i < spec().buffers.size(); ++i)
    tensors.push_back({spec().buffers[i].name, spec().buffers[i].shape, buffer_slots_[i]});
  return tensors;
}

std::vector<NamedTensor> CpuLearner::state_tensors() {
  std::vector<NamedTensor> tensors;
  for (const optim::StateArena& arena : optimizer_->state())
    append_arena(tensors, spec(), arena.name + "/", arena.values.data(), *reducer_);
  if (average_) append_arena(tensors, spec(), "ema/", average_->state().values.data(), *reducer_);
  return tensors;
}

void CpuLearner::set_steps(std::int64_t steps) {
  optimizer_->set_steps(steps);
  if (average_) average_->set_updates(steps);
}

}  // namespace muster::train
