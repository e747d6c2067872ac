// SPDX-License-Identifier: Apache-2.0
// The fuzzer's committed inputs, on every compiler and in every preset.
#include "catch.hpp"
#include "tests/fuzz/cli/cli_check.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

TEST_CASE("Every input of the corpus of clis keeps what must hold") {
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_CLI_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    check_cli_input(std::string(std::istreambuf_iterator<char>(file), {}));
    ++inputs;
  }
  CHECK(inputs >= 20);
}
