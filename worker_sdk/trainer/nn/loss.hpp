// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::nn {

struct BatchScore {
  double loss = 0;  ///< the loss, summed over the samples
  std::int64_t correct = 0;
};

/// Softmax cross-entropy of `samples` x `classes` logits. Where `gradient` is not null it gets the gradient
/// of the *summed* loss: whoever applies it divides by the number of samples. A label is below `classes`.
/// `smoothing`, from 0 to below 1, is the share of each target that is spread evenly over all classes, as
/// PyTorch's label_smoothing (Szegedy et al., "Rethinking the Inception Architecture", 2015). Any thread.
BatchScore softmax_cross_entropy(const float* logits, const std::uint8_t* labels, std::size_t samples,
                                 std::size_t classes, float* gradient, double smoothing = 0);

}  // namespace muster::nn
