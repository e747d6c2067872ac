// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/gpu/session/half_sum.hpp"

#include <algorithm>

namespace muster::nn::gpu {
namespace {

/// What each rank sums of so many floats.
std::size_t part_of(std::size_t count, const ProcessGroup& group) {
  const auto ranks = static_cast<std::size_t>(group.size());
  return (count + ranks - 1) / ranks;
}

}  // namespace

HalfSum::HalfSum(const parallel::BucketLayout& layout, DataType wire, ProcessGroup& group, Ops& ops)
    : wire_(wire), group_(group), ops_(ops) {
  std::size_t largest = 0;
  for (const parallel::Bucket& bucket : layout.buckets) largest = std::max(largest, bucket.elements);
  const std::size_t bytes = part_of(largest, group) * static_cast<std::size_t>(group.size()) * size_of(wire);
  given_ = static_cast<std::uint16_t*>(ops.allocate(bytes, "gradients in 16 bits"));
  received_ = static_cast<std::uint16_t*>(ops.allocate(bytes, "gradients in 16 bits"));
}

void HalfSum::start(Collective collective, std::size_t count, const void* in, void* out, DataType type,
                    void* stream) {
  Operation operation = operation_of(collective, count, type, in, out);
  operation.stream = stream;
  (void)group_.start({operation});
}

void HalfSum::sum(std::size_t bucket, float* header, float* gradients, std::size_t count, void* stream) {
  if (bucket == 0)
    start(Collective::all_reduce, parallel::kHeaderFloats, header, header, DataType::f32, stream);
  const HalfType type = {wire_ == DataType::f16};
  const std::size_t part = part_of(count, group_);
  const auto floats = static_cast<std::int64_t>(count);
  const auto ranks = static_cast<std::size_t>(group_.size());
  std::uint16_t* const own = given_ + static_cast<std::size_t>(group_.rank()) * part;
  ops_.run(PackHalf{type, floats, static_cast<std::int64_t>(part * ranks), gradients, header, given_});
  // Each rank sums one part of everybody's and gives it to all: as many bytes as an all-reduce in 16 bits,
  // which would round after each addition.
  start(Collective::all_to_all, part, given_, received_, wire_, stream);
  ops_.run(SumHalf{type, group_.size(), static_cast<std::int64_t>(part), received_, own});
  start(Collective::all_gather, part, own, given_, wire_, stream);
  ops_.run(UnpackHalf{type, floats, given_, header, gradients});
}

}  // namespace muster::nn::gpu
