// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/loop/sharded_model.hpp"

#include <algorithm>

namespace muster::train {

ShardedModel::ShardedModel(Reducer& reducer, nn::Network& network, ProcessGroup& group, std::size_t ahead)
    : reducer_(reducer), shards_(*reducer.shards()), group_(group) {
  for (const nn::ParameterUnit& unit : network.units())
    bucket_of_.push_back(reducer.layout().bucket_of[unit.first]);
  if (!has_whole_values()) units_.emplace(reducer.layout(), layout(), group, ahead);
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
  if (!has_whole_values()) return;
  for (std::size_t b = 0; b < reducer_.buckets(); ++b) shards_.spread(b);
}

void ShardedModel::collect(std::size_t bucket, const float* shards, float* whole) {
  const parallel::FloatRange& part = layout().parts[bucket];
  group_.run(operation_of(Collective::gather, part.size(), DataType::f32, shards + part.begin, whole));
}

std::size_t ShardedModel::value_bytes() const {
  return shards_.value_bytes() + (units_ ? units_->bytes() : 0);
}

void ShardedModel::abort(const std::string& reason) {
  if (units_) units_->abort(reason);
}

void ShardedModel::begin_unit(std::size_t unit, bool backward) {
  const std::size_t bucket = bucket_of_[unit];
  if (used_ == bucket) return;
  used_ = bucket;
  if (units_) units_->begin(values(), bucket, backward);
  if (backward) reducer_.enter(bucket);
}

/// Behind the last unit of a bucket it has to be gathered anew.
void ShardedModel::end_unit(std::size_t unit, bool backward) {
  const bool is_last = backward ? unit == 0 : unit + 1 == bucket_of_.size();
  if (is_last || bucket_of_[backward ? unit - 1 : unit + 1] != bucket_of_[unit]) used_.reset();
}

}  // namespace muster::train
