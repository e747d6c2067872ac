// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/data/sampler.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/philox.hpp"

#include <numeric>
#include <string>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t kMaxSamples = std::size_t{1} << 31;

/// Keeps the streams of epochs apart from those of other users of the same seed.
constexpr std::uint64_t kEpochStreams = std::uint64_t{0x5A} << 56;

}  // namespace

DistributedSampler::DistributedSampler(std::size_t samples, const SamplerOptions& options)
    : samples_(samples), options_(options) {
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size)
    throw Error(ErrorCode::invalid_argument, "a sampler for rank " + std::to_string(options.rank) + " of " +
                                                 std::to_string(options.world_size) +
                                                 "; ranks go from 0 to the world size less 1");
  if (samples > kMaxSamples)
    throw Error(ErrorCode::invalid_argument,
                "a sampler over " + std::to_string(samples) + " samples; the largest number is 2^31");
  order_.resize(samples);
  share(samples);
}

void DistributedSampler::share(std::size_t samples) {
  const auto world = static_cast<std::size_t>(options_.world_size);
  const auto rank = static_cast<std::size_t>(options_.rank);
  switch (options_.remainder) {
    case Remainder::keep:
      mine_.resize(samples / world + (rank < samples % world ? 1 : 0));
      break;
    case Remainder::pad:
      mine_.resize((samples + world - 1) / world);
      break;
    case Remainder::drop:
      mine_.resize(samples / world);
      break;
  }
}

std::span<const std::uint32_t> DistributedSampler::begin_epoch(int epoch, std::size_t position) {
  if (epoch < 0)
    throw Error(ErrorCode::invalid_argument, "epoch " + std::to_string(epoch) + "; the first epoch is 0");
  if (position > samples_)
    throw Error(ErrorCode::invalid_argument, "epoch " + std::to_string(epoch) + " cannot go on at place " +
                                                 std::to_string(position) + " of " +
                                                 std::to_string(samples_) +
                                                 " samples; is this the data set that the checkpoint is of?");
  position_ = position;
  share(samples_ - position);
  std::iota(order_.begin(), order_.end(), 0U);
  if (options_.shuffle) {
    RandomStream random(options_.seed, kEpochStreams | static_cast<std::uint64_t>(epoch));
    for (std::size_t i = samples_; i > 1; --i)
      std::swap(order_[i - 1], order_[random.below(static_cast<std::uint32_t>(i))]);
  }
  std::size_t place = position + static_cast<std::size_t>(options_.rank);
  for (std::uint32_t& index : mine_) {
    index = order_[place % samples_];
    place += static_cast<std::size_t>(options_.world_size);
  }
  return mine_;
}

}  // namespace muster
