// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/batch_norm.hpp"

#include "worker_sdk/nn/cpu/planes.hpp"

#include <algorithm>
#include <cmath>

namespace muster::nn::cpu {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;

/// Calls body(number, first channel, first element) for each strip, on all threads.
template <typename Body>
void each_strip(const MapShape& shape, std::int64_t batch, const Body& body) {
  const Strip strip = shape.strip();
  const std::size_t per_image = shape.strips_per_image();
  const std::size_t count = static_cast<std::size_t>(batch) * per_image;
#pragma omp parallel for schedule(static)
  for (std::size_t s = 0; s < count; ++s) body(s, s % per_image * kLanes, s * strip.rows * strip.width);
}

}  // namespace

BatchNorm::BatchNorm(const MapShape& shape, StatisticsExchange* exchange)
    : shape_(shape), kernels_(map_kernels(shape.format.bf16)), exchange_(exchange) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  for (auto* values : {&mean_, &inverse_deviation_}) values->resize(channels);
  for (auto* values : {&mean_f32_, &forward_scale_, &forward_shift_, &by_gradient_, &by_x_, &constant_})
    values->resize(channels);
}

void BatchNorm::bind(const ParameterSlot& scale, const ParameterSlot& shift, float* running_mean,
                     float* running_variance) {
  scale_ = scale;
  shift_ = shift;
  running_mean_ = running_mean;
  running_variance_ = running_variance;
}

/// Adds up the strips' results per channel. `centred`: products are squares around each strip's own mean, and
/// become sums of squares.
void BatchNorm::add_strips(std::int64_t batch, double* sums, double* products, bool centred) {
  const auto channels = static_cast<std::size_t>(shape_.channels);
  const double per_row = 1.0 / static_cast<double>(shape_.pixels());
  std::fill_n(sums, channels, 0.0);
  std::fill_n(products, channels, 0.0);
  for (std::size_t n = 0; n < static_cast<std::size_t>(batch); ++n)
    for (std::size_t c = 0; c < channels; ++c) {
      const double sum = strip_sums_[n * channels + c];
      sums[c] += sum;
      products[c] +=
          static_cast<double>(strip_products_[n * channels + c]) + (centred ? sum * sum * per_row : 0);
    }
}

void BatchNorm::use_statistics(const double* mean, const double* variance) {
  for (std::size_t c = 0; c < mean_.size(); ++c) {
    mean_[c] = mean[c];
    mean_f32_[c] = static_cast<float>(mean[c]);
    inverse_deviation_[c] = 1.0 / std::sqrt(variance[c] + kEpsilon);
    const double scale = static_cast<double>(scale_.value[c]) * inverse_deviation_[c];
    forward_scale_[c] = static_cast<float>(scale);
    forward_shift_[c] = static_cast<float>(static_cast<double>(shift_.value[c]) - mean[c] * scale);
  }
}

void BatchNorm::measure(const void* x, std::int64_t batch, Mode mode) {
  const auto channels = static_cast<std::size_t>(shape_.channels);
  std::vector<double> values(2 * channels + 1);
  if (mode == Mode::evaluate) {
    std::copy_n(running_mean_, channels, values.data());
    std::copy_n(running_variance_, channels, values.data() + channels);
    use_statistics(values.data(), values.data() + channels);
    return;
  }
  strip_sums_.resize(static_cast<std::size_t>(batch) * channels);
  strip_products_.resize(strip_sums_.size());
  each_strip(shape_, batch, [&](std::size_t s, std::size_t, std::size_t at) {
    const Strip strip = shape_.strip();
    kernels_.statistics(strip, element(x, at, shape_.format.element_bytes()), &strip_sums_[s * strip.width],
                        &strip_products_[s * strip.width]);
  });
  double* mean = values.data();
  double* variance = mean + channels;
  add_strips(batch, mean, variance, true);
  values.back() = static_cast<double>(static_cast<std::size_t>(batch) * shape_.pixels());
  if (exchange_ != nullptr) exchange_->sum(values);
  count_ = values.back();
  if (count_ == 0) return;
  for (std::size_t c = 0; c < channels; ++c) {
    mean[c] /= count_;
    variance[c] = std::max(0.0, variance[c] / count_ - mean[c] * mean[c]);
    const double unbiased = count_ > 1 ? variance[c] * count_ / (count_ - 1) : variance[c];
    const auto move = [](float& running, double now) {
      running = static_cast<float>((1 - kMomentum) * static_cast<double>(running) + kMomentum * now);
    };
    move(running_mean_[c], mean[c]);
    move(running_variance_[c], unbiased);
  }
  use_statistics(mean, variance);
}

void BatchNorm::apply(const void* x, const void* addend, const BatchNorm* addend_norm, void* y,
                      std::uint16_t* signs, std::int64_t batch) const {
  const std::size_t bytes = shape_.format.element_bytes();
  each_strip(shape_, batch, [&](std::size_t, std::size_t channel, std::size_t at) {
    ForwardArgs args;
    args.x = element(x, at, bytes);
    args.scale = &forward_scale_[channel];
    args.shift = &forward_shift_[channel];
    args.addend = element(addend, at, bytes);
    if (addend_norm != nullptr) {
      args.addend_scale = &addend_norm->forward_scale_[channel];
      args.addend_shift = &addend_norm->forward_shift_[channel];
    }
    args.y = element(y, at, bytes);
    args.signs = signs == nullptr ? nullptr : signs + at / kLanes;
    kernels_.forward(shape_.strip(), args);
  });
}

namespace {

BackwardArgs strip_of(const BackwardArgs& all, std::size_t at, std::size_t bytes) {
  BackwardArgs args;
  args.x = element(all.x, at, bytes);
  args.dy = element(all.dy, at, bytes);
  args.dy2 = element(all.dy2, at, bytes);
  args.signs = all.signs == nullptr ? nullptr : all.signs + at / kLanes;
  return args;
}

}  // namespace

void BatchNorm::backward_sums(const BackwardArgs& args, void* out, std::int64_t batch) {
  const auto channels = static_cast<std::size_t>(shape_.channels);
  const std::size_t bytes = shape_.format.element_bytes();
  strip_sums_.resize(static_cast<std::size_t>(batch) * channels);
  strip_products_.resize(strip_sums_.size());
  each_strip(shape_, batch, [&](std::size_t s, std::size_t channel, std::size_t at) {
    const Strip strip = shape_.strip();
    kernels_.backward_sums(strip, strip_of(args, at, bytes), &mean_f32_[channel],
                           &strip_sums_[s * strip.width], &strip_products_[s * strip.width],
                           element(out, at, bytes));
  });
  std::vector<double> values(2 * channels);
  double* sums = values.data();
  double* products = sums + channels;
  add_strips(batch, sums, products, false);
  for (std::size_t c = 0; c < channels; ++c) {
    scale_.gradient[c] = static_cast<float>(products[c] * inverse_deviation_[c]);
    shift_.gradient[c] = static_cast<float>(sums[c]);
  }
  if (exchange_ != nullptr) exchange_->sum(values);
  if (count_ == 0) return;
  // dx = scale / deviation * (g - mean(g) - xhat * mean(g * xhat)), section 3 of the paper.
  for (std::size_t c = 0; c < channels; ++c) {
    const double inverse = inverse_deviation_[c];
    const double factor = static_cast<double>(scale_.value[c]) * inverse;
    const double by_x = -factor * inverse * inverse * products[c] / count_;
    by_gradient_[c] = static_cast<float>(factor);
    by_x_[c] = static_cast<float>(by_x);
    constant_[c] = static_cast<float>(-factor * sums[c] / count_ - by_x * mean_[c]);
  }
}

void BatchNorm::backward(const BackwardArgs& args, void* dx, std::int64_t batch) const {
  const std::size_t bytes = shape_.format.element_bytes();
  each_strip(shape_, batch, [&](std::size_t, std::size_t channel, std::size_t at) {
    kernels_.backward(shape_.strip(), strip_of(args, at, bytes), &by_gradient_[channel], &by_x_[channel],
                      &constant_[channel], element(dx, at, bytes));
  });
}

}  // namespace muster::nn::cpu
