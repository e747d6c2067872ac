// SPDX-License-Identifier: Apache-2.0
#include "muster/abi/reducer.h"

#include "worker_sdk/abi/failure.hpp"
#include "worker_sdk/abi/nodes.hpp"
#include "worker_sdk/abi/options.hpp"
#include "worker_sdk/parallel/parameter_check.hpp"
#include "worker_sdk/parallel/reducer.hpp"

#include <algorithm>
#include <utility>

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

}  // namespace
}  // namespace muster::abi

using namespace muster::abi;

extern "C" {

muster_rc muster_reducer_create(muster_group* group, const muster_param* parameters, uint32_t count,
                                const muster_reducer_options* options, muster_reducer** reducer) {
  if (reducer != nullptr) *reducer = nullptr;
  return guarded(__func__, group, [&] {
    GroupNode& node = open<GroupNode>(group);
    require(reducer, "the place for the reducer");
    const auto found = reducer_options(read_options(options, "muster_reducer_options"), group);
    watching(node, [&] {
      *reducer = handle_of<muster_reducer>(make_node<ReducerNode>(node, specs_of(parameters, count), found));
    });
  });
}

muster_rc muster_reducer_arena(muster_reducer* reducer, uint64_t* elements, float** gradients) {
  return guarded(__func__, reducer, [&] {
    ReducerNode& node = open<ReducerNode>(reducer);
    if (elements != nullptr) *elements = node.reducer.elements();
    if (gradients != nullptr) *gradients = node.reducer.gradients();
  });
}

muster_rc muster_reducer_gradient(muster_reducer* reducer, uint32_t i, uint64_t* offset, float** gradient) {
  return guarded(__func__, reducer, [&] {
    ReducerNode& node = open<ReducerNode>(reducer);
    node.require_parameter(i);
    if (offset != nullptr) *offset = node.reducer.offset(i);
    if (gradient != nullptr) *gradient = node.reducer.gradient(i);
  });
}

muster_rc muster_reducer_broadcast(muster_reducer* reducer, float* values) {
  return guarded(__func__, reducer, [&] {
    ReducerNode& node = open<ReducerNode>(reducer);
    require(values, "the arena of values");
    watching(node.group, [&] { node.reducer.broadcast(values); });
  });
}

muster_rc muster_reducer_begin_step(muster_reducer* reducer, int64_t samples) {
  return guarded(__func__, reducer, [&] { open<ReducerNode>(reducer).reducer.begin_step(samples); });
}

muster_rc muster_reducer_gradient_ready(muster_reducer* reducer, uint32_t i) {
  return guarded(__func__, reducer, [&] {
    ReducerNode& node = open<ReducerNode>(reducer);
    node.require_parameter(i);
    node.reducer.gradient_ready(i);
  });
}

muster_rc muster_reducer_mark_unused(muster_reducer* reducer, uint32_t i) {
  return guarded(__func__, reducer, [&] {
    ReducerNode& node = open<ReducerNode>(reducer);
    node.require_parameter(i);
    node.reducer.mark_unused(i);
  });
}

muster_rc muster_reducer_finish_step(muster_reducer* reducer, int64_t* samples) {
  return guarded(__func__, reducer, [&] {
    ReducerNode& node = open<ReducerNode>(reducer);
    try {
      const std::int64_t total = node.reducer.finish_step();
      ++node.finished_steps;
      if (samples != nullptr) *samples = total;
    } catch (...) {
      // Whatever the code: a hook may fail with any.
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
  return guarded(__func__, reducer, [&] {
    const ReducerNode& node = open<ReducerNode>(reducer);
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
  return guarded(__func__, reducer, [&] {
    ReducerNode& node = open<ReducerNode>(reducer);
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
  return guarded(__func__, reducer, [&] {
    ReducerNode& node = open<ReducerNode>(reducer);
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
