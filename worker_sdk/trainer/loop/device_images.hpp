// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/loop/learner.hpp"
#include "worker_sdk/trainer/nn/gpu/ops.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::train {

/// Images as bytes on a device, and the order in which they are taken.
struct DeviceSet {
  std::uint8_t* pixels = nullptr;
  std::uint8_t* labels = nullptr;
  std::uint32_t* order = nullptr;
  std::size_t size = 0;
};

/// All images on a device, and the batch that was made of them. One thread.
class DeviceImages {
 public:
  /// Copies the images. `capacity`: most of them in a batch. `values` says where in the order a batch begins.
  DeviceImages(const data::ImageData& data, const data::LoaderOptions& options, const nn::ImageFormat& format,
               std::size_t capacity, const nn::gpu::StepValues* values, nn::gpu::Ops& ops);

  const DeviceSet& train() const { return train_; }

  const DeviceSet& test() const { return test_; }

  /// The order of one batch after the other. Throws Error (invalid_argument) for images that are not there,
  /// or more than there are, and for a batch that is too large.
  void set_order(const DeviceSet& set, const BatchPlan& batches);

  /// Puts it onto the stream that a batch is made.
  const void* gather(const DeviceSet& set, std::size_t count);

  const std::uint8_t* labels() const { return labels_; }

 private:
  DeviceSet upload(const data::Images& images, const char* what);

  const data::LoaderOptions options_;
  const nn::ImageFormat format_;
  const std::size_t capacity_;
  const nn::gpu::StepValues* const values_;
  nn::gpu::Ops& ops_;
  const DeviceSet train_;
  const DeviceSet test_;
  void* batch_;
  std::uint8_t* labels_;
};

}  // namespace muster::train
