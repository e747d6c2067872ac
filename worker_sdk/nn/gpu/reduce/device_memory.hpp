// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/gpu/ops.hpp"
#include "worker_sdk/parallel/memory.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::nn::gpu {

/// Zeroed memory for so many values, at least one.
template <typename T>
T* allocate(Ops& ops, std::size_t count, const char* what) {
  return static_cast<T*>(ops.allocate((count > 0 ? count : 1) * sizeof(T), what));
}

/// Memory of a device. It is freed with the Ops, which outlive this object.
class DeviceMemory final : public parallel::Memory {
 public:
  explicit DeviceMemory(Ops& ops) : ops_(ops) {}

  bool is_on_host() const override { return false; }

  float* allocate(std::size_t count, const char* what) override {
    return gpu::allocate<float>(ops_, count, what);
  }

  void copy(float* to, const float* from, std::size_t count) override {
    if (count > 0) ops_.run(AddGradients{all(count), from, false, to});
  }

  void add(const float* a, const float* b, float* result, std::size_t count) override {
    if (result == a && result != b) return add(b, a, result, count);
    if (result != b) copy(result, b, count);
    if (count > 0) ops_.run(AddGradients{all(count), a, true, result});
  }

  void write(float* to, const float* from, std::size_t count) override {
    if (count > 0) ops_.to_device(to, from, count * sizeof(float));
  }

  void read(float* to, const float* from, std::size_t count) override {
    if (count > 0) ops_.from_device(to, from, count * sizeof(float));
  }

 private:
  static ArenaRange all(std::size_t count) { return {0, static_cast<std::int64_t>(count)}; }

  Ops& ops_;
};

}  // namespace muster::nn::gpu
