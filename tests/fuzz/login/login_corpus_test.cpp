// SPDX-License-Identifier: Apache-2.0
// The fuzzer's committed inputs, on every compiler and in every preset. Those called "bad_..." are not taken.
#include "catch.hpp"
#include "tests/fuzz/login/login_check.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

TEST_CASE("The login corpus is read as it must be") {
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_LOGIN_CORPUS)) {
    const std::string name = entry.path().filename().string();
    INFO(name);
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string input(std::istreambuf_iterator<char>(file), {});
    CHECK(check_login_input(input) == !name.starts_with("bad_"));
    ++inputs;
  }
  CHECK(inputs >= 10);
}
