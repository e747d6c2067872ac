// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/cli/cli_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_cli_input(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
