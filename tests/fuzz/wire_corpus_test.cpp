// SPDX-License-Identifier: Apache-2.0
// Runs the fuzzer's check over its committed corpus in every build, and asserts that the corpus still reaches
// all operations, both dialects and every limit.
#include "catch.hpp"
#include "tests/fuzz/wire_check.hpp"
#include "tests/support/folder.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

namespace c10d = muster::rendezvous::c10d;

namespace {

std::set<std::string> lines_of(const std::string& transcript) {
  std::set<std::string> lines;
  std::size_t start = 0;
  while (start < transcript.size()) {
    const std::size_t end = std::min(transcript.find('\n', start), transcript.size());
    const std::string line = transcript.substr(start, end - start);
    lines.insert(line.substr(0, line.find(" <")));
    start = end + 1;
  }
  return lines;
}

}  // namespace

TEST_CASE("the corpus holds what must hold and reaches every operation and limit") {
  std::set<std::string> seen;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_FUZZ_FOLDER "/wire_corpus")) {
    INFO(entry.path().filename());
    const std::string input = muster::test::bytes_of_file(entry.path());
    CHECK_NOTHROW(c10d::check_wire(input));
    const auto limits = (input.at(0) & 1) != 0 ? c10d::small_limits() : c10d::RequestLimits{};
    seen.merge(lines_of(c10d::decode_in_pieces(std::string_view(input).substr(1), limits,
                                               [](std::size_t left) { return left; })));
  }
  for (int op = 0; op <= c10d::kLastOp; ++op) CHECK(seen.contains("op " + std::to_string(op) + " modern"));
  for (int op = 1; op <= 8; ++op) CHECK(seen.contains("op " + std::to_string(op) + " legacy"));
  for (const char* end :
       {"violation: key longer than allowed", "violation: value longer than allowed",
        "violation: request longer than allowed", "violation: more keys in one request than allowed",
        "violation: unknown operation", "violation: unknown first byte or operation",
        "violation: wrong magic number in the handshake", "inside a request", "between requests"}) {
    INFO(end);
    CHECK(seen.contains(end));
  }
}
