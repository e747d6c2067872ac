// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/wire_check.hpp"

#include <cstddef>
#include <cstdint>

// The name and the types are libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const void* bytes = data;
  muster::rendezvous::c10d::check_wire({static_cast<const char*>(bytes), size});
  return 0;
}
