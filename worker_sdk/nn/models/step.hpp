// SPDX-License-Identifier: Apache-2.0
// The border between a network and its steps (StepKind in plan.hpp).
#pragma once

#include "worker_sdk/nn/layers.hpp"
#include "worker_sdk/nn/plan.hpp"
#include "worker_sdk/nn/row_layers.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster::nn {

/// A batch on its way through a network.
struct Pass {
  std::int64_t batch = 0;
  Mode mode = Mode::train;
  /// Forward is computed for the second time: norms keep the statistics that they have taken, and exchange
  /// nothing.
  bool again = false;
  DropoutKey draws;  ///< its `layer` is the step's own matter
};

/// The gradient of a value: the sum of two parts, of which the second may be null.
struct Gradient {
  const void* one = nullptr;
  const void* two = nullptr;
};

/// A result that may hold what is not finite.
struct WatchedResult {
  const std::string& layer;
  const void* data;
  std::size_t per_image;  ///< elements
  std::size_t element_bytes;
};

using Watch = std::function<void(const WatchedResult&)>;

/// Some layers that are computed in one go, with the memory of their results. With a batch of 0 a step does
/// what its layers exchange with other ranks, and tells its gradients ready, which its network clears.
class Step {
 public:
  virtual ~Step() = default;

  virtual void bind(std::span<const ParameterSlot>, std::span<float* const>) {}

  virtual void weights_changed() {}

  virtual void forward(const void* x, const Pass& pass) = 0;

  /// Where forward() writes. Valid between the room's begin() and its next one.
  virtual void* result() const = 0;

  /// From the gradient `dy` of the result, whose first part may stand where the result was. `x` is what
  /// forward() got; its gradient goes to `dx` (null: not wanted), which may be where x is. Returns that
  /// gradient. The second part may stand where the result was, too.
  virtual Gradient backward(const Gradient& dy, const void* x, void* dx, const Pass& pass,
                            const Ready& ready) = 0;

  /// Tells a step of several units (units_of()) the number of its first one.
  virtual void set_units(std::size_t) {}

  /// Of a step of several units; the user of another one is its chain's.
  virtual void set_unit_user(UnitUser*) {}

  /// Shows what the layers with parameters have computed, in the order of forward().
  virtual void each_result(const Watch&) const {}
};

/// While it lives, a step uses the parameters of a unit, if it has one and somebody wants to know.
class UnitUse {
 public:
  UnitUse(UnitUser* user, const std::optional<std::size_t>& unit, Step& step, bool backward)
      : user_(unit ? user : nullptr), step_(step) {
    if (user_ != nullptr) user_->begin_unit(*unit, backward);
  }

  ~UnitUse() {
    if (user_ != nullptr && user_->takes_values_away()) step_.weights_changed();
  }

  UnitUse(const UnitUse&) = delete;
  UnitUse& operator=(const UnitUse&) = delete;

 private:
  UnitUser* const user_;
  Step& step_;
};

/// What the steps of a network share.
template <LayerSet Layers>
struct Shared {
  Shared(typename Layers::Room& r, const Plan& plan) : room(r) {
    if (plan.kept_result > 0)
      kept.emplace(room, plan.kept_result * sizeof(typename Layers::Feature), &MemoryUse::workspace);
    if (plan.largest_shortcut.channels > 0)
      shortcut.emplace(room, room.map_bytes(plan.largest_shortcut), &MemoryUse::workspace);
  }

  typename Layers::Room& room;
  /// The gradient of a result that backward still reads (PlannedStep::reads_result()).
  std::optional<Memory<typename Layers::Feature>> kept;
  /// The gradient of what the shortcut of a residual step of maps reads.
  std::optional<Memory<typename Layers::Element>> shortcut;
};

/// Steps one behind the other.
template <LayerSet Layers>
class Chain {
 public:
  explicit Chain(const Shared<Layers>& shared) : shared_(shared) {}

  void add(std::unique_ptr<Step> step, bool reads_result) {
    links_.push_back({std::move(step), reads_result, {}});
  }

  /// Step `i` is a unit of parameters.
  void set_unit(std::size_t i, std::size_t unit) { links_[i].unit = unit; }

  void set_unit_user(UnitUser* user) {
    user_ = user;
    for (const Link& link : links_) link.step->set_unit_user(user);
  }

  std::size_t size() const { return links_.size(); }

  Step& operator[](std::size_t i) const { return *links_[i].step; }

  Step* last() const { return links_.empty() ? nullptr : links_.back().step.get(); }

  void bind(std::span<const ParameterSlot> slots, std::span<float* const> buffers) {
    for (const Link& link : links_) link.step->bind(slots, buffers);
  }

  void weights_changed() {
    for (const Link& link : links_) link.step->weights_changed();
  }

  /// What the last step has written; `x` where there is none.
  const void* forward(const void* x, const Pass& pass) {
    for (const Link& link : links_) {
      const UnitUse use(user_, link.unit, *link.step, false);
      link.step->forward(x, pass);
      x = link.step->result();
    }
    return x;
  }

  /// Down to step `first`. As Step::backward().
  Gradient backward(Gradient gradient, const void* x, void* dx, const Pass& pass, const Ready& ready,
                    std::size_t first = 0) {
    for (std::size_t i = links_.size(); i-- > first;) {
      const void* const input = i > 0 ? links_[i - 1].step->result() : x;
      void* const to = i > first ? place_of_gradient(i - 1) : i == 0 ? dx : nullptr;
      const UnitUse use(user_, links_[i].unit, *links_[i].step, true);
      gradient = links_[i].step->backward(gradient, input, to, pass, ready);
    }
    return gradient;
  }

  /// Where the gradient of a step's result goes.
  void* place_of_gradient(std::size_t i) const {
    return links_[i].reads_result ? shared_.kept->data() : links_[i].step->result();
  }

  void each_result(const Watch& watch) const {
    for (const Link& link : links_) link.step->each_result(watch);
  }

 private:
  struct Link {
    std::unique_ptr<Step> step;
    bool reads_result;
    std::optional<std::size_t> unit;
  };

  const Shared<Layers>& shared_;
  std::vector<Link> links_;
  UnitUser* user_ = nullptr;
};

}  // namespace muster::nn
