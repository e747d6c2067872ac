// SPDX-License-Identifier: Apache-2.0
// What a hook of the reducer remembers from step to step (PowerSGD: factors, and each rank's remainder), on
// its way into a checkpoint and back.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/nn/checkpoint/checkpoint.hpp"
#include "worker_sdk/parallel/bucket_hook.hpp"

#include <string>
#include <vector>

namespace muster::train {

/// Names in a checkpoint begin with this.
inline constexpr const char* kHookPrefix = "hook/";

/// Holds what a hook remembers, for all ranks on rank 0. One thread.
class HookMemory {
 public:
  /// `states` are the hook's (Reducer::hook_state()) and live as long as this; `layout` is what they depend
  /// on: the hook with its options, the sizes of buckets. `group`: null for a world of one, which has no
  /// states.
  HookMemory(std::vector<HookState> states, std::string layout, ProcessGroup* group);

  /// Brings every rank's values to rank 0. A collective call; so is share().
  void gather();
  /// The tensors for a checkpoint, on rank 0 after gather(); valid until the next one. A tensor that differs
  /// by rank has the world's size as its first extent.
  std::vector<checkpoint::TensorView> tensors() const;

  const std::string& layout() const { return layout_; }

  /// Takes, on rank 0, the values from a checkpoint that was written with `layout` on so many ranks. Values
  /// that do not fit stay as they are; then the result says so. Throws Error (io).
  std::string read(const checkpoint::TensorFiles& file, const std::string& layout);
  /// Gives every rank its values, after read() on rank 0.
  void share();

 private:
  bool fits(const checkpoint::TensorFiles& file, const HookState& state) const;

  const std::vector<HookState> states_;
  const std::string layout_;
  ProcessGroup* const group_;
  /// Rank 0, for each state that differs by rank: all ranks' values in turn. Elsewhere empty.
  std::vector<std::vector<float>> all_;
};

}  // namespace muster::train
