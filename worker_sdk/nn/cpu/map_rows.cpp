// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/map_rows.hpp"

#include "worker_sdk/nn/cpu/pieces.hpp"
#include "worker_sdk/nn/cpu/planes.hpp"

namespace muster::nn::cpu {
namespace {

const GroupKernels& kernels_for(const MapShape& shape) {
  return map_kernels(shape.format.bf16).group;
}

GroupPlane group_of(const MapShape& shape, const Plane& plane) {
  return {shape.pixels(), plane.pitch};
}

/// Where the rows of a channel group begin, in rows of all channels of a pixel.
std::size_t first_in_rows(const MapShape& shape, std::size_t number) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t groups = channels / kLanes;
  return number / groups * shape.pixels() * channels + number % groups * kLanes;
}

}  // namespace

void MapBias::forward(const void* x, std::int64_t batch, void* y) const {
  const std::size_t groups = static_cast<std::size_t>(shape_.channels) / kLanes;
  const std::size_t bytes = shape_.format.element_bytes();
  each_group(shape_, batch, [&](std::size_t g) {
    const Plane plane = plane_of(shape_, g);
    kernels_for(shape_).add_bias(group_of(shape_, plane), element(x, plane.first, bytes),
                                 bias_.value + g % groups * kLanes, element(y, plane.first, bytes));
  });
}

void MapBias::backward(const void* dy, std::int64_t batch) {
  if (batch == 0) return;
  sums_.resize(static_cast<std::size_t>(batch * shape_.channels));
  each_group(shape_, batch, [&](std::size_t g) {
    const Plane plane = plane_of(shape_, g);
    kernels_for(shape_).sum(group_of(shape_, plane), element(dy, plane.first, shape_.format.element_bytes()),
                            &sums_[g * kLanes]);
  });
  add_groups(sums_, static_cast<std::size_t>(shape_.channels), bias_.gradient);
}

void Flatten::forward(const void* map, std::int64_t batch, float* rows) const {
  each_group(shape_, batch, [&](std::size_t g) {
    const Plane plane = plane_of(shape_, g);
    kernels_for(shape_).to_channels(group_of(shape_, plane),
                                    element(map, plane.first, shape_.format.element_bytes()),
                                    rows + g * kLanes * shape_.pixels());
  });
}

void Flatten::backward(const float* rows_gradient, std::int64_t batch, void* map_gradient) const {
  each_group(shape_, batch, [&](std::size_t g) {
    const Plane plane = plane_of(shape_, g);
    kernels_for(shape_).from_channels(group_of(shape_, plane), rows_gradient + g * kLanes * shape_.pixels(),
                                      element(map_gradient, plane.first, shape_.format.element_bytes()));
  });
}

void Tokens::forward(const void* map, std::int64_t batch, float* rows) const {
  each_group(shape_, batch, [&](std::size_t g) {
    const Plane plane = plane_of(shape_, g);
    kernels_for(shape_).to_rows(group_of(shape_, plane),
                                element(map, plane.first, shape_.format.element_bytes()),
                                static_cast<std::size_t>(shape_.channels), rows + first_in_rows(shape_, g));
  });
}

void Tokens::backward(const float* rows_gradient, std::int64_t batch, void* map_gradient) const {
  each_group(shape_, batch, [&](std::size_t g) {
    const Plane plane = plane_of(shape_, g);
    kernels_for(shape_).from_rows(group_of(shape_, plane), rows_gradient + first_in_rows(shape_, g),
                                  static_cast<std::size_t>(shape_.channels),
                                  element(map_gradient, plane.first, shape_.format.element_bytes()));
  });
}

void Grey::forward(const void* images, std::int64_t batch, float* rows) const {
  each(static_cast<std::size_t>(batch), [&](std::size_t n) {
    const float* from = static_cast<const float*>(images) + n * pixels_ * channels_;
    float* const to = rows + n * pixels_;
    for (std::size_t p = 0; p < pixels_; ++p, from += channels_) to[p] = (from[0] + from[1] + from[2]) / 3.0F;
  });
}

}  // namespace muster::nn::cpu
