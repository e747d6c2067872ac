// SPDX-License-Identifier: Apache-2.0
// Which samples of a data set each rank works on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster {

/// The treatment of samples that do not divide evenly among the ranks.
enum class Remainder : std::uint8_t {
  keep,  ///< every sample once per epoch; the first ranks have one more. Right for counting, and for the
         ///< Reducer
  pad,   ///< repeat from the head until every rank has equally many (PyTorch's default)
  drop,  ///< leave the last ones out of this epoch (PyTorch's drop_last)
};

struct SamplerOptions {
  int rank = 0;
  int world_size = 1;
  Remainder remainder = Remainder::pad;
  /// Whether each epoch has an order of its own. False: the order of the data set, in every epoch.
  bool shuffle = true;
  /// Seed of the order, the same on all ranks. The order of an epoch is a function of (seed, epoch, size)
  /// alone.
  std::uint64_t seed = 0;
};

/// Splits a data set among ranks: rank r takes the r-th, (r + world size)-th, ... of one permutation that all
/// ranks compute alike. The epoch is an argument, so it cannot be forgotten. One thread.
///
/// So the steps of an epoch walk through the permutation: after k steps of b samples a rank its first
/// k * b * world size places are done, whoever did them. Checkpoints hold that number, and an epoch goes on
/// from it on any number of ranks, with any batch, each sample exactly once (Remainder::keep).
class DistributedSampler {
 public:
  /// Throws Error (invalid_argument) for a rank outside the world or more than 2^31 samples.
  DistributedSampler(std::size_t samples, const SamplerOptions& options);

  /// Indices of this rank in `epoch` (0 or more), without the first `position` places of the permutation,
  /// which were done before. The span is valid until the next call. Throws Error (invalid_argument) for a
  /// position beyond the data set.
  std::span<const std::uint32_t> begin_epoch(int epoch, std::size_t position = 0);

  /// The samples that all ranks together have still to do in the epoch begun last, in its order, without
  /// padding and with those that `drop` leaves out. Step k of `batch` samples in all takes [k * batch, (k +
  /// 1) * batch) of it.
  std::span<const std::uint32_t> order() const { return {order_.data() + position_, samples_ - position_}; }

  /// Indices that this rank has in the epoch begun last. Before the first epoch: in a whole one.
  std::size_t size() const { return mine_.size(); }

 private:
  void share(std::size_t samples);

  std::size_t samples_;
  SamplerOptions options_;
  std::size_t position_ = 0;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> mine_;
};

}  // namespace muster
