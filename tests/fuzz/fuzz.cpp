// SPDX-License-Identifier: Apache-2.0
// Every fuzzer: MUSTER_FUZZ_CHECK is the function of checks.hpp that it calls.
#include "tests/fuzz/checks.hpp"

#include <cstddef>
#include <cstdint>

// The name and the types are libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::fuzz::MUSTER_FUZZ_CHECK({reinterpret_cast<const char*>(data), size});
  return 0;
}
