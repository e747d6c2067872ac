// SPDX-License-Identifier: Apache-2.0
#include "muster/error.hpp"
#include "worker_sdk/abi/failure.hpp"
#include "worker_sdk/abi/options.hpp"
#include "worker_sdk/parallel/bucket_hook.hpp"
#include "worker_sdk/parallel/power_sgd.hpp"

#include <memory>
#include <string>
#include <vector>

namespace muster::abi {
namespace {

/// Throws what a callback failed with: its own words where it failed in a call of this library.
void require_ok(muster_rc code, const char* what) {
  if (code == MUSTER_OK) return;
  const Failure failure = last_failure();
  const bool is_known = code < 0 && code >= MUSTER_E_STORE;
  throw Error(is_known ? static_cast<ErrorCode>(code) : ErrorCode::state,
              std::string(what) + " returned " + std::to_string(code) +
                  (failure.code == code ? ": " + failure.text : "; look at what it reported"));
}

class CallbackHook final : public BucketHook {
 public:
  CallbackHook(muster_bucket_hook hook, void* user, muster_group* group)
      : hook_(hook), user_(user), group_(group) {}

  std::string describe() const override { return "a hook of the program"; }

  void prepare(ProcessGroup&, std::span<const BucketView> views) override {
    for (const BucketView& view : views) {
      auto& [indices, offsets] = lists_.emplace_back();
      for (const BucketParameter& parameter : view.parameters) {
        indices.push_back(static_cast<std::uint32_t>(parameter.index));
        offsets.push_back(parameter.offset);
      }
    }
  }

  void reduce(ProcessGroup&, const BucketView& view) override {
    const auto& [indices, offsets] = lists_[view.index];
    muster_bucket bucket = {};
    bucket.size = sizeof bucket;
    bucket.index = static_cast<std::uint32_t>(view.index);
    bucket.buckets = static_cast<std::uint32_t>(view.buckets);
    bucket.parameters = static_cast<std::uint32_t>(indices.size());
    bucket.offset = view.offset;
    bucket.elements = view.elements;
    bucket.gradients = view.gradients;
    bucket.samples = view.samples;
    bucket.parameter = indices.data();
    bucket.parameter_offset = offsets.data();
    forget_failure();
    require_ok(hook_(group_, &bucket, user_), "the hook of a bucket");
  }

 private:
  struct Lists {
    std::vector<std::uint32_t> indices;
    std::vector<std::uint64_t> offsets;
  };

  const muster_bucket_hook hook_;
  void* const user_;
  muster_group* const group_;
  std::vector<Lists> lists_;
};

std::shared_ptr<BucketHook> hook_of(const muster_reducer_options& given, muster_group* group) {
  if (given.hook != nullptr) {
    if (given.compression != MUSTER_COMPRESS_NONE)
      throw Error(ErrorCode::invalid_argument,
                  "a hook takes the place of compression; leave out one of both");
    return std::make_shared<CallbackHook>(given.hook, given.hook_user, group);
  }
  PowerSgdOptions options;
  switch (given.compression) {
    case MUSTER_COMPRESS_NONE:
      return nullptr;
    case MUSTER_COMPRESS_BF16:
      return make_half_hook(DataType::bf16);
    case MUSTER_COMPRESS_F16:
      return make_half_hook(DataType::f16);
    case MUSTER_COMPRESS_POWER_SGD:
      if (given.power_sgd_rank != 0) options.rank = given.power_sgd_rank;
      if (given.power_sgd_start != 0)
        options.start_step = given.power_sgd_start == -1 ? 0 : given.power_sgd_start;
      return make_power_sgd_hook(options);
    default:
      throw Error(ErrorCode::invalid_argument, "compression " + std::to_string(given.compression) +
                                                   " is unknown; use MUSTER_COMPRESS_NONE to "
                                                   "MUSTER_COMPRESS_POWER_SGD");
  }
}

}  // namespace

ReducerOptions reducer_options(const muster_reducer_options& given, muster_group* group) {
  ReducerOptions options;
  if (given.bucket_bytes > 0) options.bucket_bytes = given.bucket_bytes;
  if (given.first_bucket_bytes > 0) options.first_bucket_bytes = given.first_bucket_bytes;
  if (given.last_bucket_bytes > 0) options.last_bucket_bytes = given.last_bucket_bytes;
  if (!(given.max_norm >= 0))
    throw Error(ErrorCode::invalid_argument, "max_norm is " + std::to_string(given.max_norm) +
                                                 "; give a norm above 0, or 0 for no clipping");
  options.max_norm = given.max_norm;
  options.deterministic_micro_batches = given.deterministic_micro_batches;
  options.hook = hook_of(given, group);
  if (given.step != nullptr)
    options.bucket_step = [step = given.step, user = given.step_user](std::size_t begin, std::size_t end,
                                                                      float scale) {
      forget_failure();
      require_ok(step(begin, end, scale, user), "the optimizer step of a bucket");
    };
  return options;
}

}  // namespace muster::abi
