// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "catch.hpp"
#include "tests/integration/comm/rank_processes.hpp"

#include <string>
#include <vector>

namespace muster::test {

/// All of these ranks failed with `code`, and each was told every one of `parts`.
inline void check_failed(const std::vector<RankResult>& results, ErrorCode code,
                         const std::vector<std::string>& parts) {
  for (const RankResult& result : results) {
    INFO(result.text);
    CHECK(result.code == code);
    for (const std::string& part : parts) CHECK_THAT(result.text, Contains(part));
  }
}

/// All of these ranks came to their end, and returned `text`.
inline void check_returned(const std::vector<RankResult>& results, const std::string& text) {
  for (const RankResult& result : results) CHECK(result.text == text);
}

}  // namespace muster::test
