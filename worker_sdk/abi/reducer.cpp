// SPDX-License-Identifier: Apache-2.0
#include "muster/abi/reducer.h"

#include "worker_sdk/abi/failure.hpp"
#include "worker_sdk/abi/nodes.hpp"
#include "worker_sdk/abi/options.hpp"
#include "worker_sdk/parallel/parameter_check.hpp"
#include "worker_sdk/parallel/power_sgd.hpp"
#include "worker_sdk/parallel/reducer.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace muster::abi {
namespace {

struct ReducerNode : Node {
  static constexpr Kind kKind = Kind::reducer;

  ReducerNode(GroupNode& parent, std::vector<ParameterSpec> given, const ReducerOptions& options)
      : Node(kKind, &parent), group(parent), specs(std::move(given)), reducer(specs, &parent.group, options) {
    for (HookState& state : reducer.hook_state()) states.push_back(std::move(state));
  }

  GroupNode& group;
  const std::vector<ParameterSpec> specs;
  Reducer reducer;
  std::vector<HookState> states;
  std::int64_t finished_steps = 0;

  void require_parameter(std::uint32_t i) const {
    if (i >= specs.size())
      throw Error(ErrorCode::invalid_argument,
                  "parameter " + std::to_string(i) + " is outside 0.." + std::to_string(specs.size() - 1));
  }
};

std::vector<ParameterSpec> specs_of(const muster_param* parameters, std::uint32_t count) {
  constexpr std::uint32_t kMaxDimensions = 64;
  if (count > 0) require(parameters, "the list of parameters");
  std::vector<ParameterSpec> specs;
  specs.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const muster_param& given = parameters[i];
    require(given.name, "the name of a parameter");
    if (given.dimensions > kMaxDimensions)
      throw Error(ErrorCode::invalid_argument,
                  "parameter " + std::string(given.name) + " has " + std::to_string(given.dimensions) +
                      " dimensions; at most " + std::to_string(kMaxDimensions) + " are possible");
    if (given.dimensions > 0) require(given.shape, "the shape of a parameter");
    ParameterSpec& spec = specs.emplace_back();
    spec.name = given.name;
    spec.shape.assign(given.shape, given.shape + given.dimensions);
  }
  return specs;
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
  if (given.compression < MUSTER_COMPRESS_NONE || given.compression > MUSTER_COMPRESS_POWER_SGD)
    throw Error(ErrorCode::invalid_argument, "compression " + std::to_string(given.compression) +
                                                 " is unknown; use MUSTER_COMPRESS_NONE to "
                                                 "MUSTER_COMPRESS_POWER_SGD");
  if (given.compression != MUSTER_COMPRESS_POWER_SGD) return half_hook_of(given.compression);
  PowerSgdOptions options;
  if (given.power_sgd_rank != 0) options.rank = given.power_sgd_rank;
  if (given.power_sgd_start != 0)
    options.start_step = given.power_sgd_start == -1 ? 0 : given.power_sgd_start;
  return make_power_sgd_hook(options);
}

/// Throws Error (invalid_argument) for options that do not go together.
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

}  // namespace
}  // namespace muster::abi

using namespace muster::abi;

extern "C" {

muster_rc muster_reducer_create(muster_group* group, const muster_param* parameters, uint32_t count,
                                const muster_reducer_options* options, muster_reducer** reducer) {
  return giving<GroupNode>(__func__, group, reducer, "the place for the reducer", [&](GroupNode& node) {
    const auto found = reducer_options(read_options(options, "muster_reducer_options"), group);
    watching(node, [&] {
      *reducer = handle_of<muster_reducer>(make_node<ReducerNode>(node, specs_of(parameters, count), found));
    });
  });
}

muster_rc muster_reducer_arena(muster_reducer* reducer, uint64_t* elements, float** gradients) {
  return with_node<ReducerNode>(__func__, reducer, [&](ReducerNode& node) {
    if (elements != nullptr) *elements = node.reducer.elements();
    if (gradients != nullptr) *gradients = node.reducer.gradients();
  });
}

muster_rc muster_reducer_gradient(muster_reducer* reducer, uint32_t i, uint64_t* offset, float** gradient) {
  return with_node<ReducerNode>(__func__, reducer, [&](ReducerNode& node) {
    node.require_parameter(i);
    if (offset != nullptr) *offset = node.reducer.offset(i);
    if (gradient != nullptr) *gradient = node.reducer.gradient(i);
  });
}

muster_rc muster_reducer_broadcast(muster_reducer* reducer, float* values) {
  return with_node<ReducerNode>(__func__, reducer, [&](ReducerNode& node) {
    require(values, "the arena of values");
    watching(node.group, [&] { node.reducer.broadcast(values); });
  });
}

muster_rc muster_reducer_begin_step(muster_reducer* reducer, int64_t samples) {
  return guarded(__func__, reducer, [&] { open<ReducerNode>(reducer).reducer.begin_step(samples); });
}

muster_rc muster_reducer_gradient_ready(muster_reducer* reducer, uint32_t i) {
  return with_node<ReducerNode>(__func__, reducer, [&](ReducerNode& node) {
    node.require_parameter(i);
    node.reducer.gradient_ready(i);
  });
}

muster_rc muster_reducer_mark_unused(muster_reducer* reducer, uint32_t i) {
  return with_node<ReducerNode>(__func__, reducer, [&](ReducerNode& node) {
    node.require_parameter(i);
    node.reducer.mark_unused(i);
  });
}

muster_rc muster_reducer_finish_step(muster_reducer* reducer, int64_t* samples) {
  return with_node<ReducerNode>(__func__, reducer, [&](ReducerNode& node) {
    try {
      const std::int64_t total = node.reducer.finish_step();
      ++node.finished_steps;
      if (samples != nullptr) *samples = total;
    } catch (...) {
      // The code does not matter here, because a hook may fail with any.
      if (node.reducer.has_failed()) node.group.failed = true;
      throw;
    }
  });
}

muster_rc muster_reducer_begin_micro_batch(muster_reducer* reducer, int64_t samples) {
  return guarded(__func__, reducer, [&] { open<ReducerNode>(reducer).reducer.begin_micro_batch(samples); });
}

muster_rc muster_reducer_finish_micro_batch(muster_reducer* reducer) {
  return guarded(__func__, reducer, [&] { open<ReducerNode>(reducer).reducer.finish_micro_batch(); });
}

muster_rc muster_reducer_set_tally(muster_reducer* reducer, uint32_t i, float value) {
  return guarded(__func__, reducer, [&] { open<ReducerNode>(reducer).reducer.set_tally(i, value); });
}

muster_rc muster_reducer_get_step_info(muster_reducer* reducer, muster_step_info* info) {
  return with_node<ReducerNode>(__func__, reducer, [&](const ReducerNode& node) {
    require(info, "the place for the info");
    if (node.finished_steps == 0)
      throw muster::Error(muster::ErrorCode::state, "no step of this reducer was finished yet");
    muster_step_info found = {};
    found.buckets = static_cast<uint32_t>(node.reducer.buckets());
    for (std::size_t i = 0; i < muster::Reducer::kTallies; ++i) found.tally[i] = node.reducer.tally(i);
    found.gradient_norm = node.reducer.gradient_norm();
    found.clip_scale = node.reducer.clip_scale();
    const muster::StepTiming& timing = node.reducer.timing();
    found.communication_ns = timing.communication().count();
    found.optimizer_ns = timing.optimizer().count();
    found.exposed_ns = timing.exposed().count();
    write_result(info, found, "muster_step_info");
  });
}

muster_rc muster_reducer_state(muster_reducer* reducer, uint32_t i, const char** name, float** values,
                               uint64_t* count, int32_t* differs_by_rank) {
  return with_node<ReducerNode>(__func__, reducer, [&](ReducerNode& node) {
    if (i >= node.states.size())
      throw muster::Error(muster::ErrorCode::invalid_argument,
                          "this reducer remembers " + std::to_string(node.states.size()) +
                              " tensors; there is no number " + std::to_string(i));
    const muster::HookState& state = node.states[i];
    if (name != nullptr) *name = state.name.c_str();
    if (values != nullptr) *values = state.values.data();
    if (count != nullptr) *count = state.values.size();
    if (differs_by_rank != nullptr) *differs_by_rank = state.differs_by_rank ? 1 : 0;
  });
}

muster_rc muster_reducer_check_values(muster_reducer* reducer, const float* values, int64_t step,
                                      uint64_t* hash) {
  return with_node<ReducerNode>(__func__, reducer, [&](ReducerNode& node) {
    require(values, "the arena of values");
    std::vector<const float*> each(node.specs.size());
    for (std::size_t i = 0; i < each.size(); ++i) each[i] = values + node.reducer.offset(i);
    watching(node.group, [&] {
      const std::uint64_t found = muster::require_same_parameters(&node.group.group, node.specs, each, step);
      if (hash != nullptr) *hash = found;
    });
  });
}

muster_rc muster_reducer_free(muster_reducer* reducer) {
  if (reducer == nullptr) return MUSTER_OK;
  return guarded(__func__, reducer, [&] { Node::release(&open<ReducerNode>(reducer)); });
}
}
