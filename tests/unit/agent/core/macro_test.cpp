// SPDX-License-Identifier: Apache-2.0
#include "agent/core/macro.hpp"

#include "catch.hpp"

using muster::agent::substitute_macros;

namespace {

std::string with_rank(std::string_view text) {
  return substitute_macros(text, {{"local_rank", "3"}, {"rank", "11"}});
}

}  // namespace

TEST_CASE("Macros follow Python's Template.safe_substitute") {
  struct Row {
    std::string_view text;
    std::string_view expected;
  };

  const Row rows[] = {
      {"", ""},
      {"plain", "plain"},
      {"${local_rank}", "3"},
      {"$local_rank", "3"},
      {"--gpu=$local_rank,", "--gpu=3,"},
      {"a$$b", "a$b"},
      {"$$local_rank", "$local_rank"},
      {"$$$local_rank", "$3"},
      {"$local_rank2", "$local_rank2"},
      {"${local_rank}2", "32"},
      {"$LOCAL_RANK", "$LOCAL_RANK"},
      {"$other ${other}", "$other ${other}"},
      {"100$", "100$"},
      {"$1 $-", "$1 $-"},
      {"${local_rank", "${local_rank"},
      {"${ local_rank}", "${ local_rank}"},
      {"${}", "${}"},
      {"$rank/$local_rank", "11/3"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(with_rank(row.text) == row.expected);
  }
}
