// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/batches/device_batches.hpp"

#include "muster/error.hpp"
#include "worker_sdk/nn/batches/host_batches.hpp"
#include "worker_sdk/nn/gpu/reduce/device_memory.hpp"

#include <array>
#include <string>
#include <vector>

namespace muster::train {
namespace {

using nn::gpu::allocate;

class FilledDeviceBatches final : public DeviceBatches {
 public:
  FilledDeviceBatches(const FillBatch& fill, const nn::Description& network, std::size_t results,
                      const nn::SampleFormat& format, std::size_t capacity, nn::gpu::Ops& ops)
      : passes_{make_filled_batches(fill, network, results, false),
                make_filled_batches(fill, network, results, true)},
        has_ids_(network.input.kind == nn::InputKind::ids),
        channels_(static_cast<std::size_t>(network.input.channels)),
        pixels_(sample_elements(network.input) / channels_),
        results_(results),
        format_(format),
        capacity_(capacity),
        ops_(ops),
        inputs_(ops.allocate(capacity * format.bytes(), "a batch")) {
    if (network.loss == nn::Loss::cross_entropy)
      labels_ = allocate<std::int32_t>(ops, capacity, "labels");
    else
      targets_ = allocate<float>(ops, capacity * results, "targets");
  }

  void begin(bool training, const BatchPlan& batches) override {
    for (const auto& batch : batches)
      if (batch.size() > capacity_)
        throw Error(ErrorCode::invalid_argument, "a batch of " + std::to_string(batch.size()) +
                                                     " samples, where there is room for " +
                                                     std::to_string(capacity_));
    passes_[training ? 1 : 0]->begin(batches, 0);
  }

  void prepare(bool training, std::size_t count) override {
    const HostBatch batch = passes_[training ? 1 : 0]->next();
    if (count == 0) return;
    if (has_ids_ || (format_.type == nn::Precision::f32 && padded() == channels_))
      ops_.to_device(inputs_, batch.inputs, count * format_.bytes());
    else if (format_.type == nn::Precision::bf16)
      convert(static_cast<const float*>(batch.inputs), count, as_bf16_);
    else if (format_.type == nn::Precision::f16)
      convert(static_cast<const float*>(batch.inputs), count, as_f16_);
    else
      convert(static_cast<const float*>(batch.inputs), count, as_floats_);
    if (labels_ != nullptr) ops_.to_device(labels_, batch.labels, count * sizeof(std::int32_t));
    if (targets_ != nullptr) ops_.to_device(targets_, batch.targets, count * results_ * sizeof(float));
  }

  bool repeats() const override { return false; }

  const void* batch(bool, std::size_t) override { return inputs_; }

  const std::int32_t* labels() const override { return labels_; }

  const float* targets() const override { return targets_; }

  std::size_t bytes() const override { return capacity_ * format_.bytes(); }

 private:
  std::size_t padded() const { return static_cast<std::size_t>(format_.channels); }

  /// Copies the batch in the type of `room`, with zeros behind the channels.
  template <typename T>
  void convert(const float* from, std::size_t count, std::vector<T>& room) {
    room.assign(count * pixels_ * padded(), nn::gpu::from_float<T>(0));
    for (std::size_t pixel = 0; pixel < count * pixels_; ++pixel)
      for (std::size_t c = 0; c < channels_; ++c)
        room[pixel * padded() + c] = nn::gpu::from_float<T>(from[pixel * channels_ + c]);
    ops_.to_device(inputs_, room.data(), room.size() * sizeof(T));
  }

  const std::array<std::unique_ptr<HostBatches>, 2> passes_;
  const bool has_ids_;
  const std::size_t channels_;
  const std::size_t pixels_;
  const std::size_t results_;
  const nn::SampleFormat format_;
  const std::size_t capacity_;
  nn::gpu::Ops& ops_;
  void* const inputs_;
  std::int32_t* labels_ = nullptr;
  float* targets_ = nullptr;
  std::vector<float> as_floats_;
  std::vector<nn::gpu::Bf16> as_bf16_;
  std::vector<nn::gpu::F16> as_f16_;
};

}  // namespace

std::unique_ptr<DeviceBatches> make_filled_device_batches(const FillBatch& fill,
                                                          const nn::Description& network, std::size_t results,
                                                          const nn::SampleFormat& format,
                                                          std::size_t capacity, nn::gpu::Ops& ops) {
  return std::make_unique<FilledDeviceBatches>(fill, network, results, format, capacity, ops);
}

}  // namespace muster::train
