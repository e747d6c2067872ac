// SPDX-License-Identifier: Apache-2.0
// The fuzzer's committed inputs, on every compiler and in every preset. Those called "bad_..." are refused.
#include "catch.hpp"
#include "tests/fuzz/error_file/error_file_check.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

TEST_CASE("Every input of the corpus of error files keeps what must hold") {
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_ERROR_FILE_CORPUS)) {
    const std::string name = entry.path().filename().string();
    INFO(name);
    std::ifstream file(entry.path(), std::ios::binary);
    const bool taken = check_error_file_input(std::string(std::istreambuf_iterator<char>(file), {}));
    CHECK(taken == !name.starts_with("bad_"));
    ++inputs;
  }
  CHECK(inputs >= 10);
}
