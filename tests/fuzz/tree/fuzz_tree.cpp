// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/tree/tree_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::launcher::check_tree_frame({reinterpret_cast<const char*>(data), size});
  return 0;
}
