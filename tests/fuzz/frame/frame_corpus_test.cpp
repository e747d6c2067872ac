// SPDX-License-Identifier: Apache-2.0
// The fuzzer's corpus, and the shape of it, in every build.
#include "catch.hpp"
#include "tests/fuzz/frame/frame_check.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

TEST_CASE("Every file of the corpus is decoded alike however it is cut") {
  int files = 0;
  int accepted = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_FRAME_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    INFO(entry.path().filename());
    const int messages = muster::rendezvous::check_frames(bytes.str());
    // Names that begin with "bad_" hold no acceptable message.
    CHECK((messages == 0) == (entry.path().filename().string().rfind("bad_", 0) == 0));
    accepted += messages;
    ++files;
  }
  CHECK(files >= 20);
  CHECK(accepted >= 15);
}
