// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scaling for gradients in fp16, with the numbers of torch.amp.GradScaler: what is too small for
// fp16 is computed as a multiple, and a step whose gradients became too large for it is left out
// (Micikevicius et al., "Mixed Precision Training", 2018;
// https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling).
#pragma once

#include "worker_sdk/parallel/bucket_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace muster::train {

/// The state of the scale; alike on all ranks, because their summed gradients are. A run that computes in
/// another precision keeps `skipped`, which Adam's count depends on.
struct LossScale {
  static constexpr double kFirst = 65536;
  /// Gradients that are too large for fp16 even so are those of a training that diverges.
  static constexpr double kSmallest = 1;
  /// What a float can be multiplied with; an overflow comes before.
  static constexpr double kLargest = 0x1p100;
  /// Steps in a row without an overflow, after which the scale is doubled.
  static constexpr std::int64_t kGrowthSteps = 2000;

  double factor = kFirst;    ///< what the mean loss of the next step is multiplied with
  std::int64_t good = 0;     ///< steps in a row without an overflow since the scale last changed
  std::int64_t skipped = 0;  ///< steps of the training that were left out

  /// A step is done; `overflow`: it was left out, because a gradient was too large.
  void update(bool overflow) {
    if (overflow) {
      ++skipped;
      good = 0;
      factor /= 2;
    } else if (++good == kGrowthSteps) {
      good = 0;
      factor *= 2;
    }
  }

  /// What the summed loss of a step of so many samples of all ranks is multiplied with: how large a gradient
  /// is then does not depend on the batch.
  float of_sum(std::size_t samples) const {
    return static_cast<float>(factor / static_cast<double>(samples == 0 ? 1 : samples));
  }

  /// Whether a training of so many steps can have been left with it; what a file says may be anything.
  bool is_possible(std::int64_t steps) const {
    return factor >= kSmallest / 2 && factor <= kLargest && good >= 0 && good < kGrowthSteps &&
           skipped >= 0 && skipped <= steps;
  }

  bool operator==(const LossScale&) const = default;
};

/// Updates the scale behind step `number`. Throws Error (invalid_argument) with the advice where a gradient
/// is too large at the smallest scale.
void update_or_throw(LossScale& scale, bool overflow, std::int64_t number, const std::string& advice);

/// The options of a reducer whose loss is scaled: whether a gradient was too large is known behind the last
/// bucket, as a norm to clip to is. Throws Error (invalid_argument) for a hook that remembers gradients
/// (PowerSGD).
ReducerOptions with_loss_scale(ReducerOptions options);

}  // namespace muster::train
