// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/memory.hpp"

#include "worker_sdk/comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <new>

namespace muster::parallel {

void HostMemory::Delete::operator()(float* memory) const {
  ::operator delete[](memory, std::align_val_t{64});
}

float* HostMemory::allocate(std::size_t count, const char*) {
  return pieces_.emplace_back(new (std::align_val_t{64}) float[count]()).get();
}

void HostMemory::copy(float* to, const float* from, std::size_t count) {
  std::copy_n(from, count, to);
}

void HostMemory::add(const float* a, const float* b, float* result, std::size_t count) {
  add_floats(a, b, result, count);
}

void add_floats(const float* a, const float* b, float* result, std::size_t count) {
  const std::array<const std::byte*, 2> sources = {reinterpret_cast<const std::byte*>(a),
                                                   reinterpret_cast<const std::byte*>(b)};
  const std::array<std::byte*, 1> results = {reinterpret_cast<std::byte*>(result)};
  reduce(sources, results, count, DataType::f32, ReduceOp::sum);
}

}  // namespace muster::parallel
