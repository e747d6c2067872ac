// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/learner/sharded_model.hpp"

#include "worker_sdk/nn/initialize.hpp"

#include <algorithm>

namespace muster::train {

void account_waits(std::span<const UnitWait> waits, std::span<const PassTimes> passes,
                   const StepTiming& timing, bool steps_buckets, StepTimes& times) {
  const auto seconds = [](std::chrono::steady_clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  for (const UnitWait& wait : waits) {
    for (const PassTimes& pass : passes) {
      times.forward -= seconds(overlap(wait.asked, wait.there, pass.begun, pass.turned));
      times.backward -= seconds(overlap(wait.asked, wait.there, pass.turned, pass.ended));
    }
    const auto late = overlap(timing.meeting, timing.met, wait.asked, wait.there);
    std::chrono::steady_clock::duration stepping{};
    if (steps_buckets)
      for (const BucketTiming& bucket : timing.buckets)
        stepping += overlap(bucket.reduced, bucket.stepped, wait.asked, wait.there);
    times.late += seconds(late);
    times.optimizer += seconds(stepping);
    times.exposed += seconds(wait.there - wait.asked - late - stepping);
    if (wait.gathered) times.communication += seconds(wait.gathered->end - wait.gathered->begin);
  }
}

ShardedModel::ShardedModel(Reducer& reducer, nn::Network& network, std::size_t ahead)
    : reducer_(reducer), shards_(*reducer.shards()) {
  std::vector<std::size_t> segments;
  for (const nn::ParameterUnit& unit : network.units()) {
    bucket_of_.push_back(reducer.layout().bucket_of[unit.first]);
    unit_names_.push_back(unit.name);
    segments.push_back(unit.segment);
  }
  train_uses_ = parallel::plan_uses(bucket_of_, segments, true);
  test_uses_ = parallel::plan_uses(bucket_of_, segments, false);
  if (!has_whole_values())
    units_.emplace(reducer.layout(), layout(), *mesh().along(parallel::kShardAxis), ahead);
  if (shards_.shares_places()) network.set_unit_user(this);
}

std::vector<nn::ParameterSlot> ShardedModel::slots() const {
  const parallel::BucketLayout& buckets = reducer_.layout();
  std::vector<nn::ParameterSlot> slots;
  for (std::size_t i = 0; i < buckets.offsets.size(); ++i) {
    const std::size_t bucket = buckets.bucket_of[i];
    const std::size_t begin = buckets.buckets[bucket].offset;
    float* const values = units_ ? units_->place(bucket) : shards_.values() + begin;
    slots.push_back({values + (buckets.offsets[i] - begin), reducer_.gradient(i)});
  }
  return slots;
}

void ShardedModel::initialize(const nn::ModelSpec& spec, std::uint64_t seed) {
  const parallel::BucketLayout& buckets = reducer_.layout();
  std::vector<float> whole;
  for (std::size_t b = 0; b < buckets.buckets.size(); ++b) {
    const parallel::Bucket& bucket = buckets.buckets[b];
    whole.assign(bucket.elements, 0.0F);
    std::vector<nn::ParameterSlot> slots(spec.parameters.size());
    for (const std::size_t i : bucket.parameters)
      slots[i].value = whole.data() + (buckets.offsets[i] - bucket.offset);
    nn::initialize(spec, slots, seed);
    const parallel::FloatRange& part = layout().whole[b];
    std::copy_n(whole.data() + (part.begin - bucket.offset), part.size(), values(b));
  }
}

const float* ShardedModel::gather(std::size_t bucket) {
  if (units_) return units_->gather(values(), bucket);
  return values() + reducer_.layout().buckets[bucket].offset;
}

void ShardedModel::spread() {
  for (std::size_t b = 0; b < reducer_.buckets(); ++b) shards_.spread(b);
}

void ShardedModel::share(std::span<float> shards) {
  ProcessGroup* const replicas = mesh().along(parallel::kReplicaAxis);
  if (replicas != nullptr) replicas->broadcast(shards.data(), shards.size_bytes(), 0);
}

void ShardedModel::share_values() {
  for (std::size_t b = 0; b < reducer_.buckets(); ++b) share({values(b), layout().parts[b].size()});
  spread();
}

void ShardedModel::collect(std::size_t bucket, const float* shards, float* whole) {
  // Each copy of the model is the same, and rank 0 is of the first one.
  if (mesh().place(parallel::kReplicaAxis) > 0) return;
  const parallel::FloatRange& part = layout().parts[bucket];
  mesh()
      .along(parallel::kShardAxis)
      ->run(operation_of(Collective::gather, part.size(), DataType::f32, shards + part.begin, whole));
}

std::size_t ShardedModel::value_bytes() const {
  return shards_.value_bytes() + (units_ ? units_->bytes() : 0);
}

void ShardedModel::abort(const std::string& reason) {
  mesh().abort(reason);
  if (units_) units_->abort(reason);
}

void ShardedModel::begin_pass(bool trains) {
  trains_ = trains;
  uses_ = trains ? train_uses_ : test_uses_;
  entered_.reset();
  if (units_) units_->begin_pass();
}

void ShardedModel::begin_unit(std::size_t unit, bool backward) {
  const std::size_t bucket = bucket_of_[unit];
  UnitWait wait;
  wait.asked = std::chrono::steady_clock::now();
  if (units_) wait.gathered = gather_in_pass(bucket);
  const bool enters = backward && entered_ != bucket;
  if (enters) {
    reducer_.enter(bucket);
    entered_ = bucket;
  }
  if (!trains_ || (!enters && !wait.gathered)) return;
  wait.there = std::chrono::steady_clock::now();
  // A place that was free is nothing to tell of.
  if (wait.gathered || wait.there - wait.asked > std::chrono::microseconds(10)) waits_.push_back(wait);
}

/// In the order of plan_uses(); what is used beside it is gathered alone.
std::optional<Work::Interval> ShardedModel::gather_in_pass(std::size_t bucket) {
  const bool is_next = !uses_.empty() && uses_.front() == bucket;
  const std::span<const std::size_t> uses = is_next ? uses_ : std::span<const std::size_t>(&bucket, 1);
  if (is_next) uses_ = uses_.subspan(1);
  try {
    return units_->begin(values(), uses);
  } catch (const Error& error) {
    throw Error(error.code(),
                std::string(error.what()) + "; the call was to gather the parameters of " + units_of(bucket));
  }
}

/// "fc1", or "conv1 to layer1.0" of a bucket with several units.
std::string ShardedModel::units_of(std::size_t bucket) const {
  const auto first = std::find(bucket_of_.begin(), bucket_of_.end(), bucket);
  const auto last = std::find(bucket_of_.rbegin(), bucket_of_.rend(), bucket);
  const std::string& begin = unit_names_[static_cast<std::size_t>(first - bucket_of_.begin())];
  const std::string& end = unit_names_[static_cast<std::size_t>(bucket_of_.rend() - last) - 1];
  return begin == end ? begin : begin + " to " + end;
}

}  // namespace muster::train
