// SPDX-License-Identifier: Apache-2.0
// What of a learner leaves the process, or comes back: its arenas as tensors in memory of the host.
#include "worker_sdk/parallel/parameter_check.hpp"
#include "worker_sdk/trainer/loop/learner.hpp"
#include "worker_sdk/trainer/loop/machine.hpp"
#include "worker_sdk/trainer/loop/sharded_model.hpp"

#include <utility>

namespace muster::train {

void Learner::read(Mirror& mirror) {
  if (!mirror.copy.empty() && !mirror.is_shards)
    machine_->memory().read(mirror.copy.data(), mirror.place, mirror.copy.size());
}

void Learner::write(const Mirror& mirror) {
  if (!mirror.copy.empty() && !mirror.is_shards)
    machine_->memory().write(mirror.place, mirror.copy.data(), mirror.copy.size());
}

void Learner::fetch(Piece piece) {
  if (piece == Piece::parameters) return read(arenas_.front());
  if (fetched_) return;
  read(running_);
  if (piece == Piece::statistics) return;
  for (Mirror& arena : arenas_) read(arena);
  fetched_ = true;
}

void Learner::put(Piece piece) {
  write(running_);
  if (piece == Piece::statistics) return;
  for (const Mirror& arena : arenas_) write(arena);
  changed_ = true;
}

void Learner::broadcast(std::span<float> values) {
  if (!is_alone() && !values.empty()) group_->broadcast(values.data(), values.size_bytes(), 0);
}

void Learner::share_state() {
  fetch(Piece::everything);
  for (Mirror& arena : arenas_) share(arena);
  broadcast(running_.floats);
  put(Piece::everything);
  release();
}

void Learner::share_statistics() {
  if (is_alone() || running_.floats.empty()) return;
  fetch(Piece::statistics);
  broadcast(running_.floats);
  put(Piece::statistics);
}

std::uint64_t Learner::parameter_hash() {
  if (machine_->shards() != nullptr && !machine_->shards()->has_whole_values()) return hash_of_shards();
  fetch(Piece::parameters);
  std::vector<const float*> values;
  for (const nn::ParameterSlot& slot : slots_) values.push_back(slot.value);
  return require_same_parameters(group_, spec().parameters, values, steps_);
}

void Learner::append(std::vector<NamedTensor>& tensors, const std::string& prefix,
                     const Mirror& arena) const {
  if (arena.floats.empty())
    throw Error(ErrorCode::state,
                "the model is in shards, and its tensors were not collected; call collect() "
                "on all ranks before rank 0 asks for them");
  for (std::size_t i = 0; i < spec().parameters.size(); ++i)
    tensors.push_back({prefix + spec().parameters[i].name, spec().parameters[i].shape,
                       arena.floats.data() + machine_->layout().offsets[i]});
}

std::vector<NamedTensor> Learner::model_tensors(bool averaged) {
  fetch(Piece::everything);
  std::vector<NamedTensor> tensors;
  const bool average = averaged && options_.ema_decay > 0 && steps_ > 0;
  append(tensors, "", average ? arenas_.back() : arenas_.front());
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    tensors.push_back({spec().buffers[i].name, spec().buffers[i].shape, buffers_[i]});
  return tensors;
}

std::vector<NamedTensor> Learner::state_tensors() {
  fetch(Piece::everything);
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 1; i < arenas_.size(); ++i) append(tensors, arenas_[i].name + "/", arenas_[i]);
  return tensors;
}

std::vector<float> Learner::gradient(std::size_t parameter) {
  if (machine_->shards() != nullptr)
    throw Error(ErrorCode::unsupported,
                "no rank keeps whole gradients where the model is in shards; train with the form ddp");
  std::vector<float> values(spec().parameters.at(parameter).elements());
  machine_->memory().read(values.data(), machine_->gradients() + machine_->layout().offsets[parameter],
                          values.size());
  return values;
}

}  // namespace muster::train
