// SPDX-License-Identifier: Apache-2.0
// What a hook of the reducer remembers from step to step (PowerSGD: factors, and each rank's remainder), on
// its way into a checkpoint and back.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/bucket_hook.hpp"
#include "worker_sdk/trainer/checkpoint/checkpoint.hpp"

#include <string>
#include <vector>

namespace muster::train {

/// Names in a checkpoint begin with this.
inline constexpr const char* kHookPrefix = "hook/";

/// One thread.
class HookMemory {
 public:
  /// `states` are the hook's (Reducer::hook_state()) and live as long as this; `layout` is what they depend
  /// on: the hook with its options, the sizes of buckets. `group`: null for a world of one, which has no
  /// states.
  HookMemory(std::vector<HookState> states, std::string layout, ProcessGroup* group);

  /// Brings every rank's values to rank 0. A collective call; so is share().
  void gather();
  /// Rank 0, after gather(): valid until the next one. What differs by rank has a first extent of the world.
  std::vector<checkpoint::TensorView> tensors() const;

  const std::string& layout() const { return layout_; }

  /// Rank 0: takes the values from a checkpoint that was written with `layout` on so many ranks. What does
  /// not fit stays as it is; then the result says so. Throws Error (io).
  std::string read(const checkpoint::SafetensorsFile& file, const std::string& layout);
  /// After read() on rank 0: gives every rank its values.
  void share();

 private:
  bool fits(const checkpoint::SafetensorsFile& file, const HookState& state) const;

  const std::vector<HookState> states_;
  const std::string layout_;
  ProcessGroup* const group_;
  /// Rank 0, for each state that differs by rank: all ranks' values in turn. Elsewhere empty.
  std::vector<std::vector<float>> all_;
};

}  // namespace muster::train
