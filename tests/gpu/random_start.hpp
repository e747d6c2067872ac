// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/data/images.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"
#include "worker_sdk/nn/learner/learner.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace muster::nn::gpu {

/// Random images and labels, as many as asked for.
data::Images random_images(std::size_t count);

/// `count` batches of so many images each, in their order.
train::BatchPlan some_batches(std::size_t count, std::size_t images);

/// Mean losses of the images of a step, and of a test after it.
struct EagerLosses {
  double trained = 0;
  double tested = 0;
};

/// A step of two micro-batches of `batch` images and a test, call by call, with all that a learner can be
/// asked for, so that each kernel of the model runs: clipping, the average of the weights, SGD in f32, AdamW
/// and batch norm over all ranks (of which there is one) in bf16.
EagerLosses make_eager_step(Ops& ops, const std::string& model, std::int64_t batch, Precision precision);

}  // namespace muster::nn::gpu
