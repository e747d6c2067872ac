// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/learner/loss_scale.hpp"

#include "muster/error.hpp"
#include "worker_sdk/parallel/bucket_hook.hpp"

#include <limits>

namespace muster::train {

void update_or_throw(LossScale& scale, bool overflow, std::int64_t number, const std::string& advice) {
  if (overflow && scale.factor <= LossScale::kSmallest)
    throw Error(ErrorCode::invalid_argument,
                "step " + std::to_string(number) +
                    ": gradients are too large for fp16 at every scale of the loss; training diverged: " +
                    advice + ", or compute in bf16 or 32 bits");
  scale.update(overflow);
}

ReducerOptions with_loss_scale(ReducerOptions options) {
  // A hook that remembers would keep what a step that is left out gave it, and in the measure of another
  // scale.
  if (options.hook != nullptr && !options.hook->wire_type())
    throw Error(ErrorCode::invalid_argument, "in fp16 gradients cannot be summed by " +
                                                 options.hook->describe() +
                                                 ", which remembers what a step that is left out gave it; "
                                                 "compute in bf16 or 32 bits, or sum without it");
  if (!(options.max_norm > 0)) options.max_norm = std::numeric_limits<double>::infinity();
  return options;
}

}  // namespace muster::train
