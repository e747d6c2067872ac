// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/batches/device_images.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/gpu/reduce/device_memory.hpp"

#include <string>
#include <type_traits>
#include <vector>

namespace muster::train {
namespace {

using nn::gpu::allocate;
using nn::gpu::Ops;

nn::gpu::PixelScaling scaling_of(const data::Normalization& normalization) {
  nn::gpu::PixelScaling scaling{};
  for (int c = 0; c < nn::gpu::kColours; ++c) {
    scaling.scale[c] = 1.0F / (255.0F * normalization.deviation[c]);
    scaling.shift[c] = -normalization.mean[c] / normalization.deviation[c];
  }
  return scaling;
}

}  // namespace

DeviceImages::DeviceImages(const data::ImageData& data, const data::LoaderOptions& options,
                           const nn::SampleFormat& format, std::size_t capacity,
                           const nn::gpu::StepValues* values, Ops& ops)
    : options_(options),
      format_(format),
      capacity_(capacity),
      values_(values),
      ops_(ops),
      bytes_(data.train.pixels.size() + data.test.pixels.size()),
      train_(upload(data.train, "training images")),
      test_(upload(data.test, "test images")),
      batch_(ops.allocate(capacity * format.bytes(), "images")),
      labels_(allocate<std::int32_t>(ops, capacity, "labels")) {}

DeviceSet DeviceImages::upload(const data::Images& images, const char* what) {
  const DeviceSet set = {allocate<std::uint8_t>(ops_, images.pixels.size(), what),
                         allocate<std::uint8_t>(ops_, images.size(), "labels"),
                         allocate<std::uint32_t>(ops_, images.size(), "the order of images"), images.size()};
  if (images.size() == 0) return set;
  ops_.to_device(set.pixels, images.pixels.data(), images.pixels.size());
  ops_.to_device(set.labels, images.labels.data(), images.labels.size());
  return set;
}

void DeviceImages::begin(bool training, const BatchPlan& batches) {
  const DeviceSet& set = training ? train_ : test_;
  std::vector<std::uint32_t> order;
  for (const auto& batch : batches) {
    order.insert(order.end(), batch.begin(), batch.end());
    if (batch.size() > capacity_)
      throw Error(ErrorCode::invalid_argument, "a batch of " + std::to_string(batch.size()) +
                                                   " images, where there is room for " +
                                                   std::to_string(capacity_));
  }
  for (const std::uint32_t index : order)
    if (index >= set.size || order.size() > set.size)
      throw Error(ErrorCode::invalid_argument, "image " + std::to_string(index) + " of " +
                                                   std::to_string(set.size) + " does not exist, or " +
                                                   std::to_string(order.size()) + " images are asked for");
  if (!order.empty()) ops_.to_device(set.order, order.data(), order.size() * sizeof(std::uint32_t));
}

const void* DeviceImages::batch(bool training, std::size_t count) {
  if (count == 0) return batch_;
  const DeviceSet& set = training ? train_ : test_;
  const auto run = [&](auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    ops_.run(nn::gpu::Gather<T>{static_cast<std::int64_t>(count), set.pixels, set.labels, set.order, values_,
                                scaling_of(options_.normalization), options_.augmentation, out, labels_});
  };
  if (format_.type == nn::Precision::bf16)
    run(static_cast<nn::gpu::Bf16*>(batch_));
  else if (format_.type == nn::Precision::f16)
    run(static_cast<nn::gpu::F16*>(batch_));
  else
    run(static_cast<float*>(batch_));
  return batch_;
}

}  // namespace muster::train
