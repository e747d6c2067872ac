// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/error_file/error_file_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_error_file_input(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
