// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/gpu/reduce/rank_sums.hpp"

#include "worker_sdk/nn/gpu/reduce/device_memory.hpp"

#include <algorithm>

namespace muster::nn::gpu {
namespace {

/// Whether a device sums buckets as the hook would; null: there is none.
bool device_sums(const BucketHook* hook) {
  return hook == nullptr || hook->wire_type().has_value();
}

/// What each rank sums of so many floats.
std::size_t part_of(std::size_t count, const ProcessGroup& group) {
  const auto ranks = static_cast<std::size_t>(group.size());
  return (count + ranks - 1) / ranks;
}

}  // namespace

RankSums::RankSums(ProcessGroup* group, BucketHook* hook, Ops& ops)
    : group_(group != nullptr && group->size() > 1 ? group : nullptr),
      hook_(hook),
      ops_(ops),
      on_device_(!is_alone() && group->backend() == "nccl"),
      buckets_on_host_(!is_alone() && (!on_device_ || !device_sums(hook))),
      met_(allocate<float>(ops, 1, "a number that ranks meet by")) {}

void RankSums::prepare(const parallel::BucketLayout& layout, const std::vector<ParameterSpec>& parameters,
                       float* header) {
  layout_ = &layout;
  header_ = header;
  if (is_alone()) return;
  if (buckets_on_host_) {
    ProcessGroup& group = *group_;
    copied_ =
        static_cast<float*>(group.allocate((parallel::kHeaderFloats + layout.elements) * sizeof(float)));
    there_.emplace(layout, parameters, hook_, copied_, &group);
  } else if (hook_ != nullptr) {
    std::size_t largest = 0;
    for (const parallel::Bucket& bucket : layout.buckets) largest = std::max(largest, bucket.elements);
    const std::size_t count = part_of(largest, *group_) * static_cast<std::size_t>(group_->size());
    given_ = allocate<std::uint16_t>(ops_, count, "gradients in 16 bits");
    received_ = allocate<std::uint16_t>(ops_, count, "gradients in 16 bits");
  }
}

void RankSums::start(Collective collective, std::size_t count, const void* in, void* out, DataType type,
                     void* stream) {
  Operation operation = operation_of(collective, count, type, in, out);
  operation.stream = stream;
  (void)group_->start({operation});
}

void RankSums::sum_bucket(std::size_t bucket, void* stream) {
  const parallel::Bucket& range = layout_->buckets[bucket];
  const std::size_t header = bucket == 0 ? parallel::kHeaderFloats : 0;
  const std::size_t offset = parallel::kHeaderFloats - header + range.offset;
  const std::size_t count = header + range.elements;
  if (given_ != nullptr) {
    if (header > 0) sum(header_, header, DataType::f32, stream);
    return sum_halves(header_ + offset + header, range.elements, stream);
  }
  if (!there_) return sum(header_ + offset, count, DataType::f32, stream);
  ops_.from_device(copied_ + offset, header_ + offset, count * sizeof(float));
  there_->sum(bucket);
  ops_.to_device(header_ + offset, copied_ + offset, count * sizeof(float));
}

void RankSums::sum_halves(float* gradients, std::size_t count, void* stream) {
  const DataType wire = *hook_->wire_type();
  const HalfType type = {wire == DataType::f16};
  const std::size_t part = part_of(count, *group_);
  const auto floats = static_cast<std::int64_t>(count);
  const auto ranks = static_cast<std::size_t>(group_->size());
  std::uint16_t* const own = given_ + static_cast<std::size_t>(group_->rank()) * part;
  ops_.run(PackHalf{type, floats, static_cast<std::int64_t>(part * ranks), gradients, header_, given_});
  // Each rank sums one part of everybody's and gives it to all: as many bytes as an all-reduce in 16 bits,
  // which would round after each addition.
  start(Collective::all_to_all, part, given_, received_, wire, stream);
  ops_.run(SumHalf{type, group_->size(), static_cast<std::int64_t>(part), received_, own});
  start(Collective::all_gather, part, own, given_, wire, stream);
  ops_.run(UnpackHalf{type, floats, given_, header_, gradients});
}

void RankSums::sum(void* data, std::size_t count, DataType type, void* stream) {
  if (is_alone()) return;
  if (on_device_) return start(Collective::all_reduce, count, data, data, type, stream);
  const std::size_t bytes = count * size_of(type);
  staged_.resize(std::max(staged_.size(), bytes));
  ops_.from_device(staged_.data(), data, bytes);
  group_->all_reduce(staged_.data(), count, type, ReduceOp::sum);
  ops_.to_device(data, staged_.data(), bytes);
}

void RankSums::meet(void* stream) {
  sum(met_, 1, DataType::f32, stream);
}

}  // namespace muster::nn::gpu
