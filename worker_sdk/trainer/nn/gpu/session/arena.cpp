// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/gpu/session/arena.hpp"

#include "worker_sdk/trainer/nn/gpu/kernels/optimizer.hpp"

namespace muster::nn::gpu {

ArenaLayout::ArenaLayout(const ModelSpec& spec, std::size_t first_bucket_bytes, std::size_t bucket_bytes)
    : offsets_(spec.parameters.size()), bucket_of_(spec.parameters.size()) {
  constexpr auto kStep = static_cast<std::size_t>(kArenaStep);
  static_assert(kArenaHeader % kStep == 0);
  std::size_t place = kArenaHeader;
  decays_.assign(kArenaHeader / kStep, 0);
  Bucket bucket;
  for (std::size_t i = spec.parameters.size(); i-- > 0;) {
    offsets_[i] = place;
    bucket_of_[i] = buckets_.size();
    const std::size_t steps = (spec.parameters[i].elements() + kStep - 1) / kStep;
    decays_.insert(decays_.end(), steps, spec.parameters[i].decay ? 1 : 0);
    place += steps * kStep;
    ++bucket.parameters;
    bucket.end = place;
    const std::size_t limit = buckets_.empty() ? first_bucket_bytes : bucket_bytes;
    if (i > 0 && (bucket.end - bucket.begin) * sizeof(float) < limit) continue;
    buckets_.push_back(bucket);
    bucket = {place, place, 0};
  }
  elements_ = place;
}

}  // namespace muster::nn::gpu
