// SPDX-License-Identifier: Apache-2.0
#include "agent/core/worker_environment.hpp"
#include "catch.hpp"

using muster::agent::substitute_local_rank;

TEST_CASE("The local rank is the only macro, and no other dollar sign is touched") {
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
      {"a$$b", "a$$b"},
      {"kill -9 $$", "kill -9 $$"},
      {"$$ $$$ ${$}", "$$ $$$ ${$}"},
      {"$$local_rank", "$local_rank"},
      {"$${local_rank}", "${local_rank}"},
      {"$$$local_rank", "$$local_rank"},
      {"$$ $local_rank", "$$ 3"},
      {"$local_rank$local_rank", "33"},
      {"$$local_rank2", "$$local_rank2"},
      {"$$other $${other}", "$$other $${other}"},
      {"$local_rank2", "$local_rank2"},
      {"$local_rank_", "$local_rank_"},
      {"$local_rank-", "3-"},
      {"${local_rank}2", "32"},
      {"$LOCAL_RANK", "$LOCAL_RANK"},
      {"$other ${other}", "$other ${other}"},
      {"100$", "100$"},
      {"$1 $-", "$1 $-"},
      {"${local_rank", "${local_rank"},
      {"${ local_rank}", "${ local_rank}"},
      {"${}", "${}"},
      {"$rank/$local_rank", "$rank/3"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(substitute_local_rank(row.text, "3") == row.expected);
  }
}
