// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/sharded_buckets.hpp"

#include "muster/error.hpp"
#include "worker_sdk/parallel/norm_sums.hpp"

#include <algorithm>
#include <string>

namespace muster::parallel {
namespace {

void refuse(Form form, const std::string& what) {
  throw Error(ErrorCode::invalid_argument,
              std::string("the form ") + name_of(form) + " " + what + "; train with the form ddp");
}

/// The shards of the layout. Throws Error for options that the form does not have.
ShardLayout checked(const BucketLayout& layout, const std::vector<ParameterSpec>& parameters,
                    const ReducerOptions& options, const ProcessGroup& world) {
  const Form form = options.sharding.form;
  if (options.hook != nullptr) refuse(form, "sums gradients in f32, and has no hook that compresses them");
  if (options.deterministic_micro_batches > 0) refuse(form, "has no deterministic world");
  std::size_t floats = 0;
  for (const ParameterSpec& parameter : parameters) floats += parameter.elements();
  const std::vector<MeshAxis> axes = axes_of_shards(world.size(), options.sharding.sharing(world.size()));
  const int ranks = axes.back().size;
  if (floats < static_cast<std::size_t>(ranks))
    refuse(form, "cannot give each of " + std::to_string(ranks) + " ranks a part of " +
                     std::to_string(floats) + " parameters");
  return plan_shards(layout, places_in(axes, world.rank()).back(), ranks);
}

std::vector<std::size_t> sizes_of(const BucketLayout& layout) {
  std::vector<std::size_t> sizes;
  for (const Bucket& bucket : layout.buckets) sizes.push_back(bucket.elements);
  return sizes;
}

Places places_for(const BucketLayout& layout, Form form) {
  if (form != Form::zero1) return plan_places(sizes_of(layout), 1);
  Places places;
  for (const Bucket& bucket : layout.buckets) places.begins.push_back(bucket.offset);
  places.floats = layout.elements;
  return places;
}

float* allocate(ProcessGroup& group, std::size_t floats) {
  return static_cast<float*>(group.allocate(floats * sizeof(float)));
}

}  // namespace

ShardedBuckets::ShardedBuckets(const BucketLayout& layout, const std::vector<ParameterSpec>& parameters,
                               const ReducerOptions& options, ProcessGroup& group)
    : OwnedBuckets(layout, checked(layout, parameters, options, group)),
      parameters_(parameters),
      form_(options.sharding.form),
      mesh_(axes_of_shards(group.size(), options.sharding.sharing(group.size())), group),
      group_(*mesh_.along(kShardAxis)),
      replicas_(mesh_.along(kReplicaAxis)),
      cuts_(plan_norm_cuts(layout, own_)),
      places_(places_for(layout, form_)),
      header_(allocate(group_, kHeaderFloats + places_.floats)) {
  if (shares_places()) sums_ = allocate(group_, own_.elements);
  values_ = allocate(group_, has_whole_values() ? layout.elements : own_.elements);
}

const float* ShardedBuckets::sums(std::size_t bucket) const {
  if (sums_ != nullptr) return sums_ + own_.parts[bucket].begin;
  return OwnedBuckets::sums(bucket);
}

float* ShardedBuckets::values(std::size_t bucket) const {
  return values_ + (has_whole_values() ? own_.whole[bucket].begin : own_.parts[bucket].begin);
}

std::size_t ShardedBuckets::value_bytes() const {
  return (has_whole_values() ? layout_.elements : own_.elements) * sizeof(float);
}

std::size_t ShardedBuckets::gradient_bytes() const {
  return (places_.floats + (sums_ != nullptr ? own_.elements : 0)) * sizeof(float);
}

/// Clears the gaps of a bucket, where another bucket's gradients were, because sums of such leftovers must
/// not grow from step to step.
void ShardedBuckets::clear_gaps(std::size_t bucket) {
  const Bucket& range = layout_.buckets[bucket];
  for (const std::size_t i : range.parameters) {
    float* const end = gradients(bucket) + (layout_.offsets[i] - range.offset);
    std::fill(end + parameters_[i].elements(), end + layout_.sizes[i], 0.0F);
  }
}

void ShardedBuckets::sum(std::size_t bucket) {
  if (bucket == 0) mesh_.world().all_reduce(header_, kHeaderFloats, DataType::f32, ReduceOp::sum);
  if (shares_places()) clear_gaps(bucket);
  float* const sums = const_cast<float*>(this->sums(bucket));
  const std::size_t count = own_.parts[bucket].size();
  Operation operation =
      operation_of(Collective::reduce_scatter, count, DataType::f32, gradients(bucket), sums);
  operation.call.op = ReduceOp::sum;
  group_.run(operation);
  if (replicas_ != nullptr) replicas_->all_reduce(sums, count, DataType::f32, ReduceOp::sum);
}

/// Adds the squares of all ranks. The sum of a cut block goes from rank to rank, and the last rank has the
/// whole. Every other block belongs to one rank, to which the other ranks add zeros.
void ShardedBuckets::share_squares(std::span<double> squares) {
  const std::size_t row = layout_.buckets.size() * LaneSums::kLanes;
  std::vector<double> mine(row);
  std::vector<double> all(cuts_.borders > 0 ? row * own_.ranks : 0);
  const auto summed = [&](const CutBlock& cut) {
    LaneSums block;
    if (cut.goes_on) block = LaneSums(&all[(own_.rank - 1) * row + cut.bucket * LaneSums::kLanes]);
    block.add(sums(cut.bucket) + (cut.range.begin - own_.parts[cut.bucket].begin), cut.range.size());
    return block;
  };
  for (std::size_t round = 0; round < cuts_.borders; ++round) {
    for (const CutBlock& cut : cuts_.own) {
      if (cut.is_last) continue;
      const LaneSums block = summed(cut);
      std::copy(block.sums().begin(), block.sums().end(), &mine[cut.bucket * LaneSums::kLanes]);
    }
    group_.run(operation_of(Collective::all_gather, row, DataType::f64, mine.data(), all.data()));
  }
  for (const CutBlock& cut : cuts_.own)
    if (cut.is_last) squares[cut.block] = summed(cut).total();
  group_.all_reduce(squares.data(), squares.size(), DataType::f64, ReduceOp::sum);
}

void ShardedBuckets::spread(std::size_t bucket) {
  if (!has_whole_values()) return;
  group_.run(operation_of(Collective::all_gather, own_.parts[bucket].size(), DataType::f32, values(bucket),
                          values_ + layout_.buckets[bucket].offset));
}

}  // namespace muster::parallel
