// SPDX-License-Identifier: Apache-2.0
// What a network is trained to make small, on a host.
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
/// PyTorch's label_smoothing (Szegedy et al., "Rethinking the Inception Architecture", 2015). `Label` is
/// std::uint8_t or std::int32_t. Any thread.
template <typename Label>
BatchScore softmax_cross_entropy(const float* logits, const Label* labels, std::size_t samples,
                                 std::size_t classes, float* gradient, double smoothing = 0);

/// The mean squared error of each of `samples` results of `width` values, summed over the samples: divided by
/// their number it is PyTorch's mse_loss. `gradient` as above, and may be where the results are. Nothing
/// counts as correct. Any thread.
BatchScore mean_squared_error(const float* results, const float* targets, std::size_t samples,
                              std::size_t width, float* gradient);

}  // namespace muster::nn
