// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/cpu/pool.hpp"

#include <vector>

namespace muster::nn::cpu {
namespace {

/// One image's channel group: where it starts, and how far its pixels lie apart.
struct Plane {
  std::size_t first = 0;
  std::size_t pitch = 0;
};

Plane plane_of(const MapShape& shape, std::size_t number) {
  if (shape.format.blocked) return {number * shape.pixels() * kLanes, kLanes};
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t groups = channels / kLanes;
  return {number / groups * shape.pixels() * channels + number % groups * kLanes, channels};
}

/// Calls body(group number) for all channel groups of all images, on all threads.
template <typename Body>
void each_group(const MapShape& shape, std::int64_t batch, const Body& body) {
  const std::size_t count = static_cast<std::size_t>(batch * shape.channels) / kLanes;
#pragma omp parallel for schedule(static)
  for (std::size_t g = 0; g < count; ++g) body(g);
}

const void* element(const void* map, std::size_t at, std::size_t bytes) {
  return map == nullptr ? nullptr : static_cast<const char*>(map) + at * bytes;
}

void* element(void* map, std::size_t at, std::size_t bytes) {
  return static_cast<char*>(map) + at * bytes;
}

/// Adds up the groups' vectors per channel, in a fixed order.
void add_groups(const std::vector<float>& sums, std::size_t channels, float* to) {
  for (std::size_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (std::size_t at = c; at < sums.size(); at += channels) sum += static_cast<double>(sums[at]);
    to[c] = static_cast<float>(sum);
  }
}

MapShape pooled_shape(const MapShape& shape, PooledTo to) {
  MapShape pooled = {shape.channels, shape.side / 2, shape.format};
  if (to == PooledTo::features) pooled.format = {};
  return pooled;
}

}  // namespace

void max_pool(const MapShape& shape, const void* x, void* y, std::uint8_t* winners, std::int64_t batch) {
  const PoolKernels& kernels = map_kernels(shape.format.bf16).pool;
  const std::size_t bytes = shape.format.element_bytes();
  each_group(shape, batch, [&](std::size_t g) {
    const Plane from = plane_of(shape, g);
    const Plane to = plane_of(max_pooled(shape), g);
    kernels.forward3({static_cast<std::size_t>(shape.side), from.pitch, to.pitch},
                     element(x, from.first, bytes), element(y, to.first, bytes),
                     winners == nullptr ? nullptr : winners + to.first);
  });
}

void max_pool_backward(const MapShape& shape, const void* dy, const void* dy2, const std::uint8_t* winners,
                       void* dx, std::int64_t batch) {
  const PoolKernels& kernels = map_kernels(shape.format.bf16).pool;
  const std::size_t bytes = shape.format.element_bytes();
  each_group(shape, batch, [&](std::size_t g) {
    const Plane to = plane_of(shape, g);
    const Plane from = plane_of(max_pooled(shape), g);
    kernels.backward3({static_cast<std::size_t>(shape.side), to.pitch, from.pitch},
                      element(dy, from.first, bytes), element(dy2, from.first, bytes), winners + from.first,
                      element(dx, to.first, bytes));
  });
}

void relu_pool(const MapShape& shape, const void* x, const float* bias, PooledTo to, void* y,
               std::uint8_t* winners, std::int64_t batch) {
  const PoolKernels& kernels = map_kernels(shape.format.bf16).pool;
  const auto run = to == PooledTo::map ? kernels.forward2 : kernels.forward2_flat;
  const MapShape pooled = pooled_shape(shape, to);
  const std::size_t groups = static_cast<std::size_t>(shape.channels) / kLanes;
  each_group(shape, batch, [&](std::size_t g) {
    const Plane from = plane_of(shape, g);
    const Plane there = plane_of(pooled, g);
    run({static_cast<std::size_t>(shape.side), from.pitch, there.pitch},
        element(x, from.first, shape.format.element_bytes()), bias + g % groups * kLanes,
        element(y, there.first, pooled.format.element_bytes()), winners + there.first);
  });
}

void relu_pool_backward(const MapShape& shape, const void* dy, PooledTo to, const std::uint8_t* winners,
                        void* dx, float* bias_gradient, std::int64_t batch) {
  const PoolKernels& kernels = map_kernels(shape.format.bf16).pool;
  const auto run = to == PooledTo::map ? kernels.backward2 : kernels.backward2_flat;
  const MapShape pooled = pooled_shape(shape, to);
  std::vector<float> sums(static_cast<std::size_t>(batch * shape.channels));
  each_group(shape, batch, [&](std::size_t g) {
    const Plane there = plane_of(shape, g);
    const Plane from = plane_of(pooled, g);
    run({static_cast<std::size_t>(shape.side), there.pitch, from.pitch},
        element(dy, from.first, pooled.format.element_bytes()), winners + from.first,
        element(dx, there.first, shape.format.element_bytes()), &sums[g * kLanes]);
  });
  add_groups(sums, static_cast<std::size_t>(shape.channels), bias_gradient);
}

void average_pool(const MapShape& shape, const void* x, float* means, std::int64_t batch) {
  const PoolKernels& kernels = map_kernels(shape.format.bf16).pool;
  each_group(shape, batch, [&](std::size_t g) {
    const Plane plane = plane_of(shape, g);
    // Groups are counted image by image, as the means lie.
    kernels.mean(shape.pixels(), plane.pitch, element(x, plane.first, shape.format.element_bytes()),
                 means + g * kLanes);
  });
}

void average_pool_backward(const MapShape& shape, const float* means_gradient, void* dx, std::int64_t batch) {
  const PoolKernels& kernels = map_kernels(shape.format.bf16).pool;
  each_group(shape, batch, [&](std::size_t g) {
    const Plane plane = plane_of(shape, g);
    kernels.spread(shape.pixels(), plane.pitch, means_gradient + g * kLanes,
                   element(dx, plane.first, shape.format.element_bytes()));
  });
}

}  // namespace muster::nn::cpu
