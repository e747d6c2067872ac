// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/learner/model_tensors.hpp"

#include "worker_sdk/nn/initialize.hpp"
#include "worker_sdk/nn/learner/machine.hpp"
#include "worker_sdk/nn/learner/sharded_model.hpp"
#include "worker_sdk/parallel/parameter_check.hpp"

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

ModelTensors::Mirror::Mirror(std::string of, float* values, std::size_t count, Machine& machine)
    : name(std::move(of)), place(values), copy(machine.memory().is_on_host() ? 0 : count) {
  floats = copy.empty() ? std::span(place, count) : std::span(copy);
}

ModelTensors::ModelTensors(Machine& machine, ProcessGroup* group, std::uint64_t seed)
    : machine_(machine), group_(group), running_("", machine.running(), machine.running_floats(), machine) {
  const nn::ModelSpec& spec = machine.network().spec();
  const std::size_t part = machine.own().elements;
  const bool is_whole = machine.has_whole_values();
  arenas_.reserve(1 + machine.states().size());
  arenas_.emplace_back("", machine.values(), is_whole ? machine.layout().elements : part, machine);
  for (const Machine::State& state : machine.states())
    arenas_.emplace_back(state.name, state.values, part, machine);
  float* next = running_.floats.data();
  for (const ParameterSpec& buffer : spec.buffers) {
    buffers_.push_back(next);
    next += buffer.elements();
  }
  nn::initialize_buffers(spec, buffers_);
  if (!is_whole) {
    machine.shards()->initialize(spec, seed);
    return;
  }
  std::vector<nn::ParameterSlot> slots;
  for (const std::size_t offset : machine.layout().offsets)
    slots.push_back({arenas_.front().floats.data() + offset, nullptr});
  nn::initialize(spec, slots, seed);
}

void ModelTensors::read(Mirror& mirror) {
  if (!mirror.copy.empty()) machine_.memory().read(mirror.copy.data(), mirror.place, mirror.copy.size());
}

void ModelTensors::write(const Mirror& mirror) {
  if (!mirror.copy.empty()) machine_.memory().write(mirror.place, mirror.copy.data(), mirror.copy.size());
}

void ModelTensors::fetch(Piece piece) {
  if (piece == Piece::parameters) return read(arenas_.front());
  if (fetched_) return;
  read(running_);
  if (piece == Piece::statistics) return;
  for (Mirror& arena : arenas_) read(arena);
  fetched_ = true;
}

void ModelTensors::put(Piece piece) {
  write(running_);
  if (piece == Piece::statistics) return;
  for (const Mirror& arena : arenas_) write(arena);
}

void ModelTensors::broadcast(std::span<float> values) {
  if (group_ != nullptr && !values.empty()) group_->broadcast(values.data(), values.size_bytes(), 0);
}

void ModelTensors::share() {
  fetch(Piece::everything);
  if (machine_.shards() != nullptr) {
    machine_.shards()->share_values();
    for (std::size_t i = 1; i < arenas_.size(); ++i) machine_.shards()->share(arenas_[i].floats);
  } else {
    for (Mirror& arena : arenas_) broadcast(arena.floats);
  }
  broadcast(running_.floats);
  put(Piece::everything);
}

void ModelTensors::share_statistics() {
  if (group_ == nullptr || running_.floats.empty()) return;
  fetch(Piece::statistics);
  broadcast(running_.floats);
  put(Piece::statistics);
}

void ModelTensors::change_statistics(const std::function<void(std::span<float> values)>& change) {
  fetch(Piece::statistics);
  change(running_.floats);
  put(Piece::statistics);
}

std::uint64_t ModelTensors::hash(std::int64_t steps) {
  if (!machine_.has_whole_values()) return hash_of_shards(steps);
  fetch(Piece::parameters);
  std::vector<const float*> values;
  for (const std::size_t offset : machine_.layout().offsets)
    values.push_back(arenas_.front().floats.data() + offset);
  return require_same_parameters(group_, machine_.network().spec().parameters, values, steps);
}

void ModelTensors::append(std::vector<NamedTensor>& tensors, const std::string& prefix, const Mirror& arena,
                          Extent extent) const {
  const parallel::BucketLayout& layout = machine_.layout();
  for (std::size_t i = 0; i < machine_.network().spec().parameters.size(); ++i) {
    const ParameterSpec& parameter = machine_.network().spec().parameters[i];
    const parallel::OwnPart part = parallel::own_part(layout, machine_.own(), i, parameter.elements());
    NamedTensor tensor{prefix + parameter.name, parameter.shape,
                       arena.floats.data() + (is_whole(arena) ? part.in_whole : part.in_shards), part.first,
                       part.elements};
    if (extent == Extent::written && machine_.shards() != nullptr) {
      const parallel::Mesh& mesh = machine_.shards()->mesh();
      take_portion(tensor, static_cast<std::size_t>(mesh.place(parallel::kReplicaAxis)),
                   static_cast<std::size_t>(mesh.size(parallel::kReplicaAxis)));
    }
    tensors.push_back(std::move(tensor));
  }
}

bool ModelTensors::is_whole(const Mirror& arena) const {
  return arena.floats.size() == machine_.layout().elements;
}

std::vector<NamedTensor> ModelTensors::model(bool averaged, Extent extent) {
  fetch(Piece::everything);
  std::vector<NamedTensor> tensors;
  append(tensors, "", weights(averaged), extent);
  const bool has_statistics = machine_.shards() == nullptr || group_->rank() == 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const ParameterSpec& buffer = machine_.network().spec().buffers[i];
    tensors.push_back({buffer.name, buffer.shape, buffers_[i], 0, has_statistics ? buffer.elements() : 0});
  }
  return tensors;
}

void ModelTensors::each_parameter(bool averaged, const std::function<void(const float* values)>& use) {
  fetch(Piece::everything);
  const Mirror& arena = weights(averaged);
  const parallel::BucketLayout& layout = machine_.layout();
  const bool is_first = group_ == nullptr || group_->rank() == 0;
  std::vector<float> room;
  // The last parameters are in the first bucket.
  for (std::size_t b = layout.buckets.size(); b-- > 0;) {
    const parallel::Bucket& bucket = layout.buckets[b];
    const float* values = arena.floats.data() + bucket.offset;
    if (!is_whole(arena)) {
      if (is_first) room.resize(std::max(room.size(), bucket.elements));
      machine_.shards()->collect(b, arena.floats.data(), is_first ? room.data() : nullptr);
      values = room.data();
    }
    if (!is_first) continue;
    std::vector<std::size_t> parameters = bucket.parameters;
    std::sort(parameters.begin(), parameters.end());
    for (const std::size_t i : parameters) use(values + (layout.offsets[i] - bucket.offset));
  }
}

std::vector<NamedTensor> ModelTensors::state(Extent extent) {
  fetch(Piece::everything);
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 1; i < arenas_.size(); ++i) append(tensors, arenas_[i].name + "/", arenas_[i], extent);
  return tensors;
}

/// A bucket at a time: no rank has room for all parameters.
std::uint64_t ModelTensors::hash_of_shards(std::int64_t steps) {
  const parallel::BucketLayout& layout = machine_.layout();
  const std::vector<ParameterSpec>& specs = machine_.network().spec().parameters;
  std::vector<std::uint64_t> hashes(specs.size());
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const float* const values = machine_.shards()->gather(b);
    for (const std::size_t i : layout.buckets[b].parameters)
      hashes[i] =
          hash_values({values + (layout.offsets[i] - layout.buckets[b].offset), specs[i].elements()}, i);
  }
  return require_same_hashes(group_, specs, hashes, steps);
}

}  // namespace muster::train
