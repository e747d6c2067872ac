// SPDX-License-Identifier: Apache-2.0
// The fuzzer's corpus, and the shape of it, in every build.
#include "catch.hpp"
#include "tests/fuzz/tree/tree_check.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

TEST_CASE("Every file of the corpus is taken or refused as its name says") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_TREE_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    INFO(entry.path().filename());
    CHECK(muster::launcher::check_tree_frame(bytes.str()) !=
          (entry.path().filename().string().rfind("bad_", 0) == 0));
    ++files;
  }
  CHECK(files >= 15);
}
