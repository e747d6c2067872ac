// SPDX-License-Identifier: Apache-2.0
// The steps of a network in segments (plan.segments).
#pragma once

#include "worker_sdk/nn/models/step.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace muster::nn {

/// All segments write to the same memory. What one of them reads is a copy, whose place gets its gradient;
/// backward() computes a segment again before it goes through it, but for the last one, which is still there.
/// So nothing that backward() of a segment returns may lie in the memory of segments.
template <LayerSet Layers>
class Segments {
 public:
  explicit Segments(typename Layers::Room& room) : room_(room) {}

  /// For each segment in turn, ahead of all steps: bytes of an image that it reads. The first one reads the
  /// caller's.
  void add_input(std::size_t bytes_per_sample) {
    if (!bytes_.empty()) inputs_.emplace_back(room_, bytes_per_sample);
    bytes_.push_back(bytes_per_sample);
  }

  /// For each segment in turn: its steps.
  void add(Chain<Layers> chain) { segments_.push_back(std::move(chain)); }

  void bind(std::span<const ParameterSlot> slots, std::span<float* const> buffers) {
    for (Chain<Layers>& segment : segments_) segment.bind(slots, buffers);
  }

  void set_unit_user(UnitUser* user) {
    for (Chain<Layers>& segment : segments_) segment.set_unit_user(user);
  }

  void weights_changed() {
    for (Chain<Layers>& segment : segments_) segment.weights_changed();
  }

  const void* forward(const void* x, const Pass& pass) {
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      if (i > 0) {
        room_.copy(input(i), x, static_cast<std::size_t>(pass.batch) * bytes_[i]);
        x = input(i);
      }
      x = segments_[i].forward(x, pass);
    }
    return x;
  }

  /// Of the pass of forward(), down to step `first` of all.
  void backward(Gradient gradient, const void* images, Pass pass, const Ready& ready, std::size_t first) {
    pass.again = true;
    std::size_t ahead = 0;  // steps of the segments ahead of this one
    for (const Chain<Layers>& segment : segments_) ahead += segment.size();
    for (std::size_t i = segments_.size(); i-- > 0 && ahead > first;) {
      const void* const x = i > 0 ? input(i) : images;
      if (i + 1 < segments_.size()) (void)segments_[i].forward(x, pass);
      ahead -= segments_[i].size();
      const bool ends = ahead <= first;
      gradient = segments_[i].backward(gradient, x, ends ? nullptr : input(i), pass, ready,
                                       ends ? first - ahead : 0);
    }
  }

  /// Between forward() and backward() of the pass. With more than one segment each is computed again.
  void each_result(const Watch& watch, const void* images, Pass pass) {
    pass.again = true;
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      if (segments_.size() > 1) (void)segments_[i].forward(i > 0 ? input(i) : images, pass);
      segments_[i].each_result(watch);
    }
  }

 private:
  void* input(std::size_t segment) const { return inputs_[segment - 1].data(); }

  typename Layers::Room& room_;
  std::vector<Chain<Layers>> segments_;
  std::vector<Memory<void>> inputs_;  ///< of all segments but the first
  std::vector<std::size_t> bytes_;    ///< that each segment reads for an image
};

}  // namespace muster::nn
