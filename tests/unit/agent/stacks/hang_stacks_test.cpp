// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/hang_stacks.hpp"

#include "catch.hpp"

#include <list>

using namespace muster::agent;

namespace {

const Frame kWait{"/usr/lib/python3.11/threading.py", 331, "Condition.wait"};
const Frame kMain{"/home/me/train.py", 80, "main"};

Frame at(int line) {
  return {"/home/me/train.py", line, "step"};
}

/// Ranks with a main thread each.
struct Ranks {
  std::list<ProcessPicture> kept;
  std::vector<RankPicture> pictures;

  Ranks& add(int rank, std::vector<Frame> frames, bool is_main = true) {
    ProcessPicture& picture = kept.emplace_back();
    picture.stacks.threads.push_back({1, is_main, false, false, false, std::move(frames)});
    pictures.push_back({rank, &picture});
    return *this;
  }
};

}  // namespace

TEST_CASE("Ranks in the same lines of the user's own are one entry, whatever library they are in") {
  Ranks ranks;
  ranks.add(2, {kWait, at(41), kMain}).add(0, {at(41), kMain}).add(1, {kWait, at(50), kMain});
  ranks.add(1, {at(99)}, false).add(3, {kWait});
  const std::vector<HangStack> stacks = hang_stacks(ranks.pictures);
  REQUIRE(stacks.size() == 3);
  CHECK(stacks[0] == HangStack{{0, 2}, {at(41), kMain}, false});
  CHECK(hang_stack_lines(stacks) ==
        std::vector<std::string>{"ranks 0, 2: train.py:41 step <- train.py:80 main",
                                 "rank 1: train.py:50 step <- train.py:80 main",
                                 "rank 3: threading.py:331 Condition.wait"});
}

TEST_CASE("Deep and many stacks, and long names, are cut") {
  std::vector<Frame> deep;
  for (int line = 1; line <= 10; ++line) deep.push_back(at(line));
  Ranks ranks;
  ranks.add(0, deep);
  for (int rank = 1; rank < 20; ++rank) ranks.add(rank, {at(100 + rank)});
  const std::vector<HangStack> stacks = hang_stacks(ranks.pictures);
  REQUIRE(stacks.size() == kHangStacksMax);
  CHECK(stacks[0].frames.size() == kHangFramesMax);
  CHECK(stacks[0].truncated);
  CHECK(hang_stack_lines(stacks)[0].ends_with("train.py:6 step <- ..."));
  Ranks named;
  named.add(0, {{std::string(5000, 'f') + ".py", 1, std::string(5000, '\x1b')}});
  CHECK(hang_stacks(named.pictures)[0].frames[0].file.size() < 300);
  CHECK(hang_stack_lines(hang_stacks(named.pictures))[0].find('\x1b') == std::string::npos);
}

TEST_CASE("The stacks of several nodes are folded again") {
  std::vector<HangStack> stacks{{{4}, {at(50)}, false}, {{5}, {at(41)}, false}};
  merge_hang_stacks(stacks, {{{0, 1}, {at(41)}, false}, {{2}, {at(60)}, false}, {{3}, {at(41)}, true}});
  CHECK(hang_stack_lines(stacks) ==
        std::vector<std::string>{"ranks 0, 1, 5: train.py:41 step", "rank 2: train.py:60 step",
                                 "rank 3: train.py:41 step <- ...", "rank 4: train.py:50 step"});
  for (int rank = 10; rank < 20; ++rank) merge_hang_stacks(stacks, {{{rank}, {at(rank)}, false}});
  CHECK(hang_stack_lines(stacks).size() == kHangStacksMax + 1);
  CHECK(hang_stack_lines(stacks).back() == "and 6 more");
  CHECK(hang_stack_lines({}).empty());
}
