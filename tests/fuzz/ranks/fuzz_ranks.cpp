// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/ranks/ranks_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_ranks_input({reinterpret_cast<const char*>(data), size});
  return 0;
}
