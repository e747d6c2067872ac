// SPDX-License-Identifier: Apache-2.0
// Gradients of a data-parallel model, summed over the ranks while backward is still running.
// muster/abi/reducer.h explains the order of a step and the meaning of the numbers.
#pragma once

#include "muster/abi/reducer.h"
#include "muster/check.hpp"
#include "muster/group.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster {
inline namespace v0 {

/// Name and shape of one trainable tensor of 32-bit floats.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// The form in which gradients travel; see muster_compression.
enum class Compression : std::int32_t { none, bf16, f16, power_sgd };

/// A range of the arena that is reduced in one go, as a hook sees it; muster_bucket.
struct Bucket {
  std::uint32_t index = 0;
  std::uint32_t buckets = 0;
  std::uint64_t offset = 0;
  std::span<float> gradients;
  std::int64_t samples = 0;
  std::span<const std::uint32_t> parameters;
  std::span<const std::uint64_t> parameter_offsets;
};

struct BucketOptions {
  /// A bucket is closed when it reaches this many bytes; 0: the default, 25 MiB.
  std::uint64_t bucket_bytes = 0;
  /// The number of bytes at which the bucket that is reduced first is closed; 0: the default, 1 MiB.
  std::uint64_t first_bucket_bytes = 0;
  /// The bucket that is reduced last has as few parameters as reach this many bytes; 0: the default, 1 MiB.
  std::uint64_t last_bucket_bytes = 0;
  Compression compression = Compression::none;
  /// Columns of PowerSGD's factors; 0: the default, 2.
  std::int32_t power_sgd_rank = 0;
  /// Steps before compression begins; 0: the default, 10; -1: none.
  std::int64_t power_sgd_start = 0;
  /// Sums a bucket over the ranks in the place of `compression`, on the reducer's thread or on the one that
  /// is in finish_step(), with calls on the group of the reducer. Its exceptions come out of finish_step()
  /// here; the other ranks' step ends too.
  std::function<void(const Bucket&)> hook = {};
  /// Applies the optimizer to the floats [begin, end) of the arena as soon as they are reduced, on the
  /// threads that `hook` is called on; in a world of one in gradient_ready() or mark_unused(), with
  /// `max_norm` in finish_step(). The gradient is the arena's times `scale`. Errors as of `hook`.
  std::function<void(std::size_t begin, std::size_t end, float scale)> step = {};
  /// L2 norm to which the mean gradient is scaled down; 0: no clipping.
  double max_norm = 0;
  /// Micro-batches of a deterministic world, see muster_reducer_options; 0: not wanted.
  std::int32_t deterministic_micro_batches = 0;
};

/// Figures of the last step; see muster_step_info.
struct StepInfo {
  std::array<float, 8> tally = {};
  double gradient_norm = 0;
  double clip_scale = 1;
  std::chrono::nanoseconds communication{};
  std::chrono::nanoseconds optimizer{};
  std::chrono::nanoseconds exposed{};
};

/// A tensor that compression remembers, for a checkpoint; it is written to when a checkpoint is loaded.
struct ReducerState {
  std::string name;
  std::span<float> values;
  bool differs_by_rank = false;
};

/// The reducer of one model. One thread; between begin_step() and finish_step() the group belongs to the
/// reducer. It lives no longer than its group.
class Reducer {
 public:
  /// Makes a reducer; all ranks of the group call it alike. Throws Error (mismatch) that names the first
  /// parameter that differs.
  Reducer(Group& group, const std::vector<Parameter>& parameters, const BucketOptions& buckets = {})
      : calls_(std::make_unique<Calls>(Calls{buckets.hook, buckets.step, nullptr})),
        handle_(make(group, parameters, buckets, calls_.get())) {
    for (const Parameter& parameter : parameters) {
      std::size_t count = 1;
      for (const std::int64_t extent : parameter.shape) count *= static_cast<std::size_t>(extent);
      counts_.push_back(count);
    }
  }

  /// The place where backward writes the gradient of parameter i.
  std::span<float> gradient(std::uint32_t i) {
    float* begin = nullptr;
    detail::check(muster_reducer_gradient(handle_.get(), i, nullptr, &begin));
    return {begin, counts_[i]};
  }

  /// All gradients with the gaps between them.
  std::span<float> arena() {
    std::uint64_t elements = 0;
    float* begin = nullptr;
    detail::check(muster_reducer_arena(handle_.get(), &elements, &begin));
    return {begin, elements};
  }

  /// The place of parameter i in the arena, in floats.
  std::size_t offset(std::uint32_t i) const {
    std::uint64_t offset = 0;
    detail::check(muster_reducer_gradient(handle_.get(), i, &offset, nullptr));
    return offset;
  }

  /// Copies rank 0's values, as many as the arena holds, to all ranks.
  void broadcast(std::span<float> values) {
    if (values.size() != arena().size())
      throw Error(ErrorCode::invalid_argument, "broadcast: " + std::to_string(values.size()) +
                                                   " values; the arena holds " +
                                                   std::to_string(arena().size()));
    detail::check(muster_reducer_broadcast(handle_.get(), values.data()));
  }

  /// Begins a micro-batch; its gradients of `samples` samples are added to those of the step, without any
  /// call on the group.
  void begin_micro_batch(std::int64_t samples) {
    detail::check(muster_reducer_begin_micro_batch(handle_.get(), samples));
  }

  void finish_micro_batch() { detail::check(muster_reducer_finish_micro_batch(handle_.get())); }

  /// Sets figure i of this rank, 0 to 7, that is summed over the ranks with the step.
  void set_tally(std::uint32_t i, float value) {
    detail::check(muster_reducer_set_tally(handle_.get(), i, value));
  }

  void begin_step(std::int64_t samples) { detail::check(muster_reducer_begin_step(handle_.get(), samples)); }

  void gradient_ready(std::uint32_t i) { detail::check(muster_reducer_gradient_ready(handle_.get(), i)); }

  void mark_unused(std::uint32_t i) { detail::check(muster_reducer_mark_unused(handle_.get(), i)); }

  /// Waits until every gradient is reduced; returns the samples of all ranks.
  std::int64_t finish_step() {
    std::int64_t samples = 0;
    const muster_rc code = muster_reducer_finish_step(handle_.get(), &samples);
    if (code != MUSTER_OK && calls_->thrown != nullptr) std::rethrow_exception(calls_->thrown);
    detail::check(code);
    return samples;
  }

  StepInfo step_info() const {
    muster_step_info found = {};
    found.size = sizeof found;
    detail::check(muster_reducer_get_step_info(handle_.get(), &found));
    StepInfo info;
    for (std::size_t i = 0; i < info.tally.size(); ++i) info.tally[i] = found.tally[i];
    info.gradient_norm = found.gradient_norm;
    info.clip_scale = found.clip_scale;
    info.communication = std::chrono::nanoseconds(found.communication_ns);
    info.optimizer = std::chrono::nanoseconds(found.optimizer_ns);
    info.exposed = std::chrono::nanoseconds(found.exposed_ns);
    return info;
  }

  std::vector<ReducerState> state() {
    std::vector<ReducerState> all;
    for (std::uint32_t i = 0;; ++i) {
      const char* name = nullptr;
      float* values = nullptr;
      std::uint64_t count = 0;
      std::int32_t differs = 0;
      if (muster_reducer_state(handle_.get(), i, &name, &values, &count, &differs) != MUSTER_OK) return all;
      all.push_back({name, {values, count}, differs != 0});
    }
  }

  /// Compares an arena over the ranks, bit for bit. Throws Error (mismatch) that names step, parameter and
  /// rank; returns the hash.
  std::uint64_t check_values(std::span<const float> values, std::int64_t step) {
    if (values.size() != arena().size())
      throw Error(ErrorCode::invalid_argument, "check_values: " + std::to_string(values.size()) +
                                                   " values; the arena holds " +
                                                   std::to_string(arena().size()));
    std::uint64_t hash = 0;
    detail::check(muster_reducer_check_values(handle_.get(), values.data(), step, &hash));
    return hash;
  }

  muster_reducer* handle() const { return handle_.get(); }

 private:
  /// The functions that the library calls back. They stay at their address when the reducer is moved.
  struct Calls {
    std::function<void(const Bucket&)> hook;
    std::function<void(std::size_t, std::size_t, float)> step;
    std::exception_ptr thrown;

    template <class Body>
    muster_rc run(Body&& body) noexcept {
      try {
        body();
        return MUSTER_OK;
      } catch (const Error& error) {
        thrown = std::current_exception();
        return static_cast<muster_rc>(error.code());
      } catch (...) {
        thrown = std::current_exception();
        return MUSTER_E_STATE;
      }
    }
  };

  static muster_rc call_hook(muster_group*, const muster_bucket* bucket, void* user) {
    auto* calls = static_cast<Calls*>(user);
    return calls->run([&] {
      calls->hook({bucket->index,
                   bucket->buckets,
                   bucket->offset,
                   {bucket->gradients, bucket->elements},
                   bucket->samples,
                   {bucket->parameter, bucket->parameters},
                   {bucket->parameter_offset, bucket->parameters}});
    });
  }

  static muster_rc call_step(std::uint64_t begin, std::uint64_t end, float scale, void* user) {
    auto* calls = static_cast<Calls*>(user);
    return calls->run([&] { calls->step(begin, end, scale); });
  }

  static muster_reducer* make(Group& group, const std::vector<Parameter>& parameters,
                              const BucketOptions& buckets, Calls* calls) {
    std::vector<muster_param> list;
    list.reserve(parameters.size());
    for (const Parameter& parameter : parameters)
      list.push_back({parameter.name.c_str(), parameter.shape.data(),
                      static_cast<std::uint32_t>(parameter.shape.size()), 0});
    muster_reducer_options options = {};
    options.size = sizeof options;
    options.bucket_bytes = buckets.bucket_bytes;
    options.first_bucket_bytes = buckets.first_bucket_bytes;
    options.last_bucket_bytes = buckets.last_bucket_bytes;
    options.compression = static_cast<muster_compression>(buckets.compression);
    options.power_sgd_rank = buckets.power_sgd_rank;
    options.power_sgd_start = buckets.power_sgd_start;
    if (calls->hook) options.hook = call_hook;
    if (calls->step) options.step = call_step;
    options.hook_user = options.step_user = calls;
    options.max_norm = buckets.max_norm;
    options.deterministic_micro_batches = buckets.deterministic_micro_batches;
    muster_reducer* reducer = nullptr;
    detail::check(muster_reducer_create(group.handle(), list.data(), static_cast<std::uint32_t>(list.size()),
                                        &options, &reducer));
    return reducer;
  }

  std::unique_ptr<Calls> calls_;  ///< outlives the handle
  detail::Owned<muster_reducer, muster_reducer_free> handle_;
  std::vector<std::size_t> counts_;
};

}  // namespace v0
}  // namespace muster
