// SPDX-License-Identifier: Apache-2.0
// What the process of a device can compute.
#pragma once

#include "tests/fakes/cuda/device/protocol.hpp"

#include <cstdint>

namespace fake {

struct Kernel {
  const char* name;
  std::uint32_t bytes;    ///< of its argument
  std::uint32_t threads;  ///< most of a block
  void (*run)(const void* argument, int blocks, int threads);
};

/// Null if there is none.
const Kernel* find_kernel(const char* name, std::uint32_t& number);
const Kernel* kernel_at(std::uint32_t number);

void convolve(const Convolution& convolution);
void multiply(const Product& product);

}  // namespace fake
