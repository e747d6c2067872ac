// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/gpu/network/room.hpp"

namespace muster::nn::gpu {

/// The gradient that goes back through a batch norm with ReLU, and the map that the norm has read.
template <typename T>
struct NormGradient {
  const T* x;
  const T* dy;
  const T* dy2;
  const std::uint8_t* signs;

  MaskedGradient<T> masked() const { return {dy, dy2, signs}; }
};

/// Batch norm with ReLU, or with the sum with a second map and ReLU.
template <typename T>
class Norm {
 public:
  Norm(Room& room, const MapExtent& extent)
      : room_(room), extent_(extent), channels_(map_channels(extent.channels, "batch norm of width")) {
    auto* p = allocate<float>(room, 7 * channels_, "batch norm");
    const auto next = [&] { return p += channels_, p - channels_; };
    state_ = {next(), next(), next(), next(), next(), next(), next()};
    if (!room.sum) return;
    totals_ = allocate<double>(room, std::int64_t{4} * channels_ + 1, "batch norm over all ranks");
    gradient_totals_ = totals_ + std::ptrdiff_t{2} * channels_ + 1;
  }

  void bind(const ParameterSlot& scale, const ParameterSlot& shift, float* mean, float* variance) {
    tensors_ = {scale.value, shift.value, mean, variance};
    scale_gradient_ = scale.gradient;
    shift_gradient_ = shift.gradient;
  }

  void measure(const T* x, std::int64_t batch, Mode mode) {
    if (batch == 0 && (mode == Mode::evaluate || !room_.sum)) return;
    if (mode == Mode::evaluate) return room_.ops.run(NormRunning{channels_, tensors_, state_});
    const MapSize map = size_of(extent_, batch);
    in_turns(NormMoments<T>{map, x, room_.partials, {map, x, tensors_, state_, Turn::alone, totals_}},
             totals_, 2 * channels_ + 1);
  }

  void apply(const T* x, const T* addend, const Norm* addend_norm, T* y, std::uint8_t* signs,
             std::int64_t batch) const {
    if (batch == 0) return;
    const NormState of_addend = addend_norm == nullptr ? NormState{} : addend_norm->state_;
    room_.ops.run(ScaleAddRelu<T>{size_of(extent_, batch), x, state_.scale, state_.shift, addend,
                                  of_addend.scale, of_addend.shift, y, signs});
  }

  void backward_sums(const NormGradient<T>& gradient, T* out, std::int64_t batch) {
    if (batch == 0 && !room_.sum) return;
    const MapSize map = size_of(extent_, batch);
    const NormGradients finish = {map,
                                  tensors_.weight,
                                  state_,
                                  scale_gradient_,
                                  shift_gradient_,
                                  Turn::alone,
                                  gradient_totals_,
                                  totals_ == nullptr ? nullptr : totals_ + std::ptrdiff_t{2} * channels_};
    in_turns(
        NormGradientSums<T>{map, gradient.masked(), gradient.x, state_.mean, out, room_.partials, finish},
        gradient_totals_, 2 * channels_);
  }

  void backward(const NormGradient<T>& gradient, T* dx, std::int64_t batch) {
    if (batch == 0) return;
    room_.ops.run(NormBackward<T>{size_of(extent_, batch), gradient.masked(), gradient.x, state_, dx});
  }

 private:
  template <typename Sums>
  void in_turns(Sums sums, double* totals, int count) {
    if (room_.sum) sums.finish.turn = Turn::give;
    room_.ops.run(sums);
    if (!room_.sum) return;
    room_.sum(totals, static_cast<std::size_t>(count), room_.ops.stream());
    room_.ops.run(sums.finish);
  }

  Room& room_;
  const MapExtent extent_;
  const int channels_;
  NormState state_{};
  double* totals_ = nullptr;           ///< forward; the number of pixels stays for backward
  double* gradient_totals_ = nullptr;  ///< backward
  NormTensors tensors_{};
  float* scale_gradient_ = nullptr;
  float* shift_gradient_ = nullptr;
};

}  // namespace muster::nn::gpu
