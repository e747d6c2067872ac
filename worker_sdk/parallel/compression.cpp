// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/compression.hpp"

#include "muster/error.hpp"
#include "worker_sdk/comm/reduce.hpp"

#include <algorithm>
#include <bit>
#include <string>

namespace muster {
namespace {

class HalfHook final : public BucketHook {
 public:
  explicit HalfHook(DataType type) : type_(type) {}

  std::string describe() const override { return "all_reduce in " + std::string(name_of(type_)); }

  std::optional<DataType> wire_type() const override { return type_; }

  void prepare(ProcessGroup& group, std::span<const BucketView> buckets) override {
    std::size_t largest = 0;
    for (const BucketView& bucket : buckets) largest = std::max(largest, bucket.elements);
    wire_ = static_cast<std::byte*>(group.allocate(largest * size_of(type_)));
  }

  void reduce(ProcessGroup& group, const BucketView& bucket) override {
    // The scale is a power of two, so scaling rounds no value that stays in the range.
    const auto scale = static_cast<float>(std::bit_ceil(static_cast<std::uint64_t>(bucket.samples)));
    multiply(bucket, 1 / scale);
    auto* const gradients = reinterpret_cast<std::byte*>(bucket.gradients);
    finish(gradients, wire_, bucket.elements, type_, ReduceOp::sum, 1);
    group.all_reduce(wire_, bucket.elements, type_, ReduceOp::sum);
    const std::byte* const sum = wire_;
    reduce_partly({&sum, 1}, gradients, bucket.elements, type_, ReduceOp::sum);
    multiply(bucket, scale);
  }

 private:
  static void multiply(const BucketView& bucket, float factor) {
    for (std::size_t i = 0; i < bucket.elements; ++i) bucket.gradients[i] *= factor;
  }

  const DataType type_;
  std::byte* wire_ = nullptr;
};

}  // namespace

std::unique_ptr<BucketHook> make_half_hook(DataType wire) {
  if (wire == DataType::bf16 || wire == DataType::f16) return std::make_unique<HalfHook>(wire);
  throw Error(ErrorCode::invalid_argument,
              "gradients cannot be compressed to " + std::string(name_of(wire)) + "; give bf16 or f16");
}

}  // namespace muster
