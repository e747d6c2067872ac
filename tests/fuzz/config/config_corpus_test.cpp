// SPDX-License-Identifier: Apache-2.0
// The fuzzer's committed inputs, on every compiler and in every preset. Those called "bad_..." are not taken.
#include "catch.hpp"
#include "tests/fuzz/config/config_check.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

TEST_CASE("The config corpus is read as it must be") {
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_CONFIG_CORPUS)) {
    const std::string name = entry.path().filename().string();
    INFO(name);
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string input(std::istreambuf_iterator<char>(file), {});
    CHECK(check_config_input(input) == !name.starts_with("bad_"));
    ++inputs;
  }
  CHECK(inputs >= 10);
}
