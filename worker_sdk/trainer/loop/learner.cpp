// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/loop/learner.hpp"

#include "worker_sdk/parallel/parameter_check.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace muster::train {
namespace {

/// The micro-batches of this rank in a deterministic world; empty where none is wanted.
std::optional<MicroBatches> fixed_micro_batches(const LearnerOptions& options, const ProcessGroup* group) {
  if (options.reducer.deterministic_micro_batches == 0) return std::nullopt;
  if (options.sync_batch_norm)
    throw Error(
        ErrorCode::invalid_argument,
        "a deterministic world computes batch norm over each micro-batch; leave --sync-batch-norm out");
  return share_micro_batches(options.reducer.deterministic_micro_batches, group);
}

}  // namespace

std::size_t NamedTensor::elements() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

Learner::Learner(const LearnerTask& task, ProcessGroup* group)
    : options_(task.options), group_(group), plan_(fixed_micro_batches(task.options, group)) {}

void Learner::set_up(const std::vector<std::size_t>& offsets, std::vector<Arena> arenas) {
  offsets_ = offsets;
  arenas_ = std::move(arenas);
  for (const std::size_t offset : offsets_)
    slots_.push_back({arenas_.front().values.data() + offset, nullptr});
  std::size_t elements = 0;
  for (const ParameterSpec& buffer : spec().buffers) elements += buffer.elements();
  running_.resize(elements);
  float* next = running_.data();
  for (const ParameterSpec& buffer : spec().buffers) {
    buffers_.push_back(next);
    next += buffer.elements();
  }
  nn::initialize(spec(), slots_, options_.seed);
  nn::initialize_buffers(spec(), buffers_);
}

void Learner::broadcast(std::span<float> values) {
  if (!is_alone() && !values.empty()) group_->broadcast(values.data(), values.size_bytes(), 0);
}

void Learner::share_state() {
  fetch(Piece::everything);
  for (const Arena& arena : arenas_) broadcast(arena.values);
  broadcast(running_);
  put(Piece::everything);
}

void Learner::share_statistics() {
  if (is_alone() || running_.empty()) return;
  fetch(Piece::statistics);
  broadcast(running_);
  put(Piece::statistics);
}

std::uint64_t Learner::parameter_hash() {
  fetch(Piece::parameters);
  std::vector<const float*> values;
  for (const nn::ParameterSlot& slot : slots_) values.push_back(slot.value);
  return require_same_parameters(group_, spec().parameters, values, steps());
}

void Learner::append(std::vector<NamedTensor>& tensors, const std::string& prefix, const Arena& arena) const {
  for (std::size_t i = 0; i < spec().parameters.size(); ++i)
    tensors.push_back(
        {prefix + spec().parameters[i].name, spec().parameters[i].shape, arena.values.data() + offsets_[i]});
}

std::vector<NamedTensor> Learner::model_tensors(bool averaged) {
  fetch(Piece::everything);
  std::vector<NamedTensor> tensors;
  const bool average = averaged && options_.ema_decay > 0 && steps() > 0;
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

std::vector<HookState> Learner::hook_state() const {
  const bool remembers = !is_alone() && options_.reducer.hook != nullptr;
  return remembers ? options_.reducer.hook->state() : std::vector<HookState>();
}

Error diverged(std::int64_t step, int rank, const std::string& layer) {
  return {ErrorCode::invalid_argument, "step " + std::to_string(step) + ": the loss of rank " +
                                           std::to_string(rank) + " is no longer a number" +
                                           (layer.empty() ? std::string() : ", first in layer " + layer) +
                                           "; training diverged: try a smaller --lr, or --clip-norm 1"};
}

void require_finite_loss(ProcessGroup* group, std::int64_t step, double own, double sum,
                         const std::function<std::string()>& find_layer) {
  if (std::isfinite(sum)) return;
  const bool alone = group == nullptr || group->size() == 1;
  std::int32_t rank = 0;
  if (!alone) {
    rank = std::isfinite(own) ? std::numeric_limits<std::int32_t>::max() : group->rank();
    group->all_reduce(&rank, 1, DataType::i32, ReduceOp::min);
  }
  if (!find_layer) throw diverged(step, rank, "");
  // Longer than any layer's name; what is behind it is zero.
  std::array<char, 128> name = {};
  const std::string layer = find_layer();
  if (alone || rank == group->rank()) layer.copy(name.data(), name.size() - 1);
  if (!alone) group->broadcast(name.data(), name.size(), rank);
  throw diverged(step, rank, name.data());
}

}  // namespace muster::train
