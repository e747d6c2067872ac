// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/batches/device_batches.hpp"
#include "worker_sdk/nn/data/batch_loader.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"

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
class DeviceImages final : public DeviceBatches {
 public:
  /// Copies the images. `capacity`: most of them in a batch. `values` says where in the order a batch
  /// begins.
  DeviceImages(const data::ImageData& data, const data::LoaderOptions& options,
               const nn::SampleFormat& format, std::size_t capacity, const nn::gpu::StepValues* values,
               nn::gpu::Ops& ops);

  /// Also throws for images that are not there, or more than there are.
  void begin(bool training, const BatchPlan& batches) override;

  void prepare(bool, std::size_t) override {}  ///< `values` say which one is next

  bool repeats() const override { return true; }

  const void* batch(bool training, std::size_t count) override;

  const std::int32_t* labels() const override { return labels_; }

  const float* targets() const override { return nullptr; }

  std::size_t bytes() const override { return bytes_; }

 private:
  DeviceSet upload(const data::Images& images, const char* what);

  const data::LoaderOptions options_;
  const nn::SampleFormat format_;
  const std::size_t capacity_;
  const nn::gpu::StepValues* const values_;
  nn::gpu::Ops& ops_;
  const std::size_t bytes_;
  const DeviceSet train_;
  const DeviceSet test_;
  void* batch_;
  std::int32_t* labels_;
};

}  // namespace muster::train
