// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/pool.hpp"

#include "worker_sdk/nn/cpu/planes.hpp"

#include <vector>

namespace muster::nn::cpu {

MaxPool::MaxPool(Room& room, const MapExtent& extent)
    : shape_(room.shape(extent)),
      result_{shape_.channels, (shape_.side - 1) / 2 + 1, shape_.format},
      winners_(room, result_.elements(1)) {}

void MaxPool::forward(const void* x, std::int64_t batch, Mode mode, void* y) const {
  const PoolKernels& kernels = map_kernels(shape_.format.bf16).pool;
  const std::size_t bytes = shape_.format.element_bytes();
  std::uint8_t* const winners = mode == Mode::train ? winners_.data() : nullptr;
  each_group(shape_, batch, [&](std::size_t g) {
    const Plane from = plane_of(shape_, g);
    const Plane to = plane_of(result_, g);
    kernels.forward3({static_cast<std::size_t>(shape_.side), from.pitch, to.pitch},
                     element(x, from.first, bytes), element(y, to.first, bytes),
                     winners == nullptr ? nullptr : winners + to.first);
  });
}

void MaxPool::backward(const void* dy, const void* dy2, std::int64_t batch, void* dx) const {
  const PoolKernels& kernels = map_kernels(shape_.format.bf16).pool;
  const std::size_t bytes = shape_.format.element_bytes();
  const std::uint8_t* const winners = winners_.data();
  each_group(shape_, batch, [&](std::size_t g) {
    const Plane to = plane_of(shape_, g);
    const Plane from = plane_of(result_, g);
    kernels.backward3({static_cast<std::size_t>(shape_.side), to.pitch, from.pitch},
                      element(dy, from.first, bytes), element(dy2, from.first, bytes), winners + from.first,
                      element(dx, to.first, bytes));
  });
}

BiasPool::BiasPool(Room& room, const MapExtent& extent, PooledTo to)
    : shape_(room.shape(extent)),
      to_(to),
      result_{shape_.channels, shape_.side / 2, to == PooledTo::map ? shape_.format : MapFormat{}},
      winners_(room, result_.elements(1)) {}

void BiasPool::forward(const void* x, std::int64_t batch, void* y) const {
  const PoolKernels& kernels = map_kernels(shape_.format.bf16).pool;
  const auto run = to_ == PooledTo::map ? kernels.forward2 : kernels.forward2_flat;
  const std::size_t groups = static_cast<std::size_t>(shape_.channels) / kLanes;
  std::uint8_t* const winners = winners_.data();
  each_group(shape_, batch, [&](std::size_t g) {
    const Plane from = plane_of(shape_, g);
    const Plane there = plane_of(result_, g);
    run({static_cast<std::size_t>(shape_.side), from.pitch, there.pitch},
        element(x, from.first, shape_.format.element_bytes()), bias_.value + g % groups * kLanes,
        element(y, there.first, result_.format.element_bytes()), winners + there.first);
  });
}

void BiasPool::backward(const void* dy, std::int64_t batch, void* dx) const {
  const PoolKernels& kernels = map_kernels(shape_.format.bf16).pool;
  const auto run = to_ == PooledTo::map ? kernels.backward2 : kernels.backward2_flat;
  const std::uint8_t* const winners = winners_.data();
  std::vector<float> sums(static_cast<std::size_t>(batch * shape_.channels));
  each_group(shape_, batch, [&](std::size_t g) {
    const Plane there = plane_of(shape_, g);
    const Plane from = plane_of(result_, g);
    run({static_cast<std::size_t>(shape_.side), there.pitch, from.pitch},
        element(dy, from.first, result_.format.element_bytes()), winners + from.first,
        element(dx, there.first, shape_.format.element_bytes()), &sums[g * kLanes]);
  });
  add_groups(sums, static_cast<std::size_t>(shape_.channels), bias_.gradient);
}

void AveragePool::forward(const void* x, std::int64_t batch, float* means) const {
  const PoolKernels& kernels = map_kernels(shape_.format.bf16).pool;
  each_group(shape_, batch, [&](std::size_t g) {
    const Plane plane = plane_of(shape_, g);
    // Groups are counted image by image, as the means lie.
    kernels.mean(shape_.pixels(), plane.pitch, element(x, plane.first, shape_.format.element_bytes()),
                 means + g * kLanes);
  });
}

void AveragePool::backward(const float* means_gradient, std::int64_t batch, void* dx) const {
  const PoolKernels& kernels = map_kernels(shape_.format.bf16).pool;
  each_group(shape_, batch, [&](std::size_t g) {
    const Plane plane = plane_of(shape_, g);
    kernels.spread(shape_.pixels(), plane.pitch, means_gradient + g * kLanes,
                   element(dx, plane.first, shape_.format.element_bytes()));
  });
}

}  // namespace muster::nn::cpu
