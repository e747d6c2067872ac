// SPDX-License-Identifier: Apache-2.0
// What of a learner leaves the process, or comes back: its arenas as tensors in memory of the host.
#include "worker_sdk/parallel/parameter_check.hpp"
#include "worker_sdk/trainer/loop/learner.hpp"
#include "worker_sdk/trainer/loop/machine.hpp"
#include "worker_sdk/trainer/loop/sharded_model.hpp"

#include <algorithm>
#include <utility>

namespace muster::train {
namespace {

/// One of `count` portions of the elements, of which each is as large as the others or larger by one.
void take_portion(NamedTensor& tensor, std::size_t number, std::size_t count) {
  const std::size_t begin = tensor.elements * number / count;
  const std::size_t end = tensor.elements * (number + 1) / count;
  tensor.values += begin;
  tensor.first += begin;
  tensor.elements = end - begin;
}

}  // namespace

void Learner::read(Mirror& mirror) {
  if (!mirror.copy.empty()) machine_->memory().read(mirror.copy.data(), mirror.place, mirror.copy.size());
}

void Learner::write(const Mirror& mirror) {
  if (!mirror.copy.empty()) machine_->memory().write(mirror.place, mirror.copy.data(), mirror.copy.size());
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
  if (is_in_shards()) {
    machine_->shards()->share_values();
    for (std::size_t i = 1; i < arenas_.size(); ++i) machine_->shards()->share(arenas_[i].floats);
  } else {
    for (Mirror& arena : arenas_) broadcast(arena.floats);
  }
  broadcast(running_.floats);
  put(Piece::everything);
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

void Learner::append(std::vector<NamedTensor>& tensors, const std::string& prefix, const Mirror& arena,
                     Extent extent) const {
  const parallel::BucketLayout& layout = machine_->layout();
  for (std::size_t i = 0; i < spec().parameters.size(); ++i) {
    const ParameterSpec& parameter = spec().parameters[i];
    NamedTensor tensor{prefix + parameter.name, parameter.shape, nullptr, 0, parameter.elements()};
    std::size_t place = layout.offsets[i];
    if (is_in_shards()) {
      const parallel::OwnPart part =
          parallel::own_part(layout, machine_->shards()->layout(), i, tensor.elements);
      tensor.first = part.first;
      tensor.elements = part.elements;
      place = is_whole(arena) ? part.in_whole : part.in_shards;
    }
    tensor.values = arena.floats.data() + place;
    if (is_in_shards() && extent == Extent::written) {
      const parallel::Mesh& mesh = machine_->shards()->mesh();
      take_portion(tensor, static_cast<std::size_t>(mesh.place(parallel::kReplicaAxis)),
                   static_cast<std::size_t>(mesh.size(parallel::kReplicaAxis)));
    }
    tensors.push_back(std::move(tensor));
  }
}

bool Learner::is_whole(const Mirror& arena) const {
  return arena.floats.size() == machine_->layout().elements;
}

/// The average counts from the first step on.
const Learner::Mirror& Learner::weights(bool averaged) const {
  return averaged && options_.ema_decay > 0 && steps_ > 0 ? arenas_.back() : arenas_.front();
}

std::vector<NamedTensor> Learner::model_tensors(bool averaged, Extent extent) {
  fetch(Piece::everything);
  std::vector<NamedTensor> tensors;
  append(tensors, "", weights(averaged), extent);
  const bool has_statistics = !is_in_shards() || group_->rank() == 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const ParameterSpec& buffer = spec().buffers[i];
    tensors.push_back({buffer.name, buffer.shape, buffers_[i], 0, has_statistics ? buffer.elements() : 0});
  }
  return tensors;
}

void Learner::each_parameter(bool averaged, const std::function<void(const float* values)>& use) {
  fetch(Piece::everything);
  const Mirror& arena = weights(averaged);
  const parallel::BucketLayout& layout = machine_->layout();
  const bool is_first = is_alone() || group_->rank() == 0;
  std::vector<float> room;
  // The last parameters are in the first bucket.
  for (std::size_t b = layout.buckets.size(); b-- > 0;) {
    const parallel::Bucket& bucket = layout.buckets[b];
    const float* values = arena.floats.data() + bucket.offset;
    if (!is_whole(arena)) {
      if (is_first) room.resize(std::max(room.size(), bucket.elements));
      machine_->shards()->collect(b, arena.floats.data(), is_first ? room.data() : nullptr);
      values = room.data();
    }
    if (!is_first) continue;
    std::vector<std::size_t> parameters = bucket.parameters;
    std::sort(parameters.begin(), parameters.end());
    for (const std::size_t i : parameters) use(values + (layout.offsets[i] - bucket.offset));
  }
}

std::vector<NamedTensor> Learner::state_tensors(Extent extent) {
  fetch(Piece::everything);
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 1; i < arenas_.size(); ++i) append(tensors, arenas_[i].name + "/", arenas_[i], extent);
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
