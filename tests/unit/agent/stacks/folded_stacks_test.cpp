// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/folded_stacks.hpp"

#include "catch.hpp"

#include <algorithm>

using namespace muster::agent;

namespace {

using Frames = std::vector<Frame>;

const Frames kLocked = {{"/usr/lib/python3.11/threading.py", 331, "Condition.wait"},
                        {"/home/me/train.py", 41, "step"},
                        {"/venv/lib/python3.11/site-packages/torch/optim/adam.py", 7, "wrap"},
                        {"/home/me/train.py", 80, "main"},
                        {"/home/me/train.py", 99, "<module>"}};

ProcessPicture picture_of(std::vector<ThreadStack> threads) {
  ProcessPicture picture;
  picture.name = "python3";
  picture.state = "sleeping";
  picture.stacks = {4711, "3.11.2", std::move(threads), ""};
  return picture;
}

ThreadStack main_in(Frames frames) {
  ThreadStack thread;
  thread.is_main = true;
  thread.frames = std::move(frames);
  return thread;
}

ThreadStack other_in(Frames frames, bool holds_gil = false) {
  ThreadStack thread = main_in(std::move(frames));
  thread.is_main = false;
  thread.holds_gil = holds_gil;
  return thread;
}

}  // namespace

TEST_CASE("Files of Python and of packages are told from the user's") {
  for (const char* const file :
       {"/usr/lib/python3.11/threading.py", "/usr/lib64/python3.9/queue.py", "/x/lib/python312.zip/queue.py",
        "/usr/lib/python3/dist-packages/six.py", "/venv/lib/python3.12/site-packages/torch/nn/module.py",
        "<frozen importlib._bootstrap>", "<__array_function__ internals>", "lib/python3.13/queue.py"})
    CHECK(is_library_file(file));
  for (const char* const file : {"train.py", "/srv/me/python3.11/train.py", "/srv/lib/python/train.py",
                                 "<string>", "<stdin>", "/srv/lib/train.py", "", "/lib/python3.11"})
    CHECK_FALSE(is_library_file(file));
}

TEST_CASE("A line begins with the user's own line, and says what it is in and who called it") {
  CHECK(own_frame(kLocked) == 1);
  CHECK(describe_calls(kLocked) ==
        "/home/me/train.py:41 step (in threading.py:331 Condition.wait) <- train.py:80 main <- train.py:99 "
        "<module>");
  CHECK(describe_calls({{"train.py", 3, "f"}}) == "train.py:3 f");
  CHECK(describe_calls({{"train.py", 0, "f"}}) == "train.py:? f");
  CHECK(describe_calls(Frames(9, {"train.py", 3, "f"})) ==
        "train.py:3 f <- train.py:3 f <- train.py:3 f <- train.py:3 f <- ...");
  CHECK(describe_calls({kLocked[0], {"<frozen runpy>", 88, "_run_code"}}) ==
        "threading.py:331 Condition.wait <- <frozen runpy>:88 _run_code");
  CHECK(describe_calls({}).empty());
  CHECK(describe_calls({{"tr\x1b[2Jain.py", 1, "f\n"}}) == "tr\\x1b[2Jain.py:1 f\\x0a");
}

TEST_CASE("Equal stacks of many ranks are one line, whatever their threads' numbers are") {
  ThreadStack numbered = main_in(kLocked);
  numbered.tid = 7;
  const ProcessPicture same = picture_of({main_in(kLocked)});
  const ProcessPicture also = picture_of({numbered});
  const ProcessPicture odd = picture_of({main_in({{"train.py", 12, "load"}})});
  const std::vector<RankPicture> pictures = {{5, &same}, {0, &same}, {1, &also}, {3, &odd}, {2, &same}};
  const std::vector<std::string> lines = stack_lines(pictures, 12);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("ranks 0-2, 5: /home/me/train.py:41 step (in "));
  CHECK(lines[1] == "rank 3: train.py:12 load");
}

TEST_CASE("Other threads follow the main ones, the GIL's holder first") {
  const ProcessPicture picture =
      picture_of({other_in({{"a.py", 1, "idle"}}), other_in({{"a.py", 1, "idle"}}),
                  other_in({{"b.py", 2, "spin"}}, true), main_in({{"train.py", 3, "f"}}), other_in({})});
  ProcessPicture moving = picture_of({main_in({{"train.py", 4, "g"}})});
  moving.stacks.threads[0].approximate = true;
  const std::vector<std::string> lines = stack_lines({{0, &picture}, {1, &moving}}, 12);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "rank 0: train.py:3 f");
  CHECK(lines[1] == "rank 1: train.py:4 g [moving]");
  CHECK(lines[2] == "rank 0, another thread: b.py:2 spin [holds the GIL]");
  CHECK(lines[3] == "rank 0, other threads: a.py:1 idle");
}

TEST_CASE("Processes without stacks are named with the reason and what the kernel says") {
  ProcessPicture shell = picture_of({});
  shell.name = "sh";
  shell.state = "sleeping in the system call wait4 (do_wait)";
  shell.stacks.error = kNoPython;
  ProcessPicture stopped = picture_of({main_in({{"train.py", 3, "f"}})});
  stopped.state = "stopped by a signal";
  const std::vector<std::string> lines = stack_lines({{0, &shell}, {4, &shell}, {1, &stopped}}, 12);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "rank 1: train.py:3 f");
  CHECK(lines[1] ==
        "ranks 0, 4: sh is sleeping in the system call wait4 (do_wait); no Python stacks: no Python");
  CHECK(lines[2] == "rank 1: python3 is stopped by a signal");
}

TEST_CASE("Lines beyond the limit are counted") {
  std::vector<ProcessPicture> many;
  for (int i = 0; i < 30; ++i) many.push_back(picture_of({main_in({{"train.py", i + 1, "f"}})}));
  std::vector<RankPicture> pictures;
  for (int i = 0; i < 30; ++i) pictures.push_back({i, &many[static_cast<std::size_t>(i)]});
  const std::vector<std::string> lines = stack_lines(pictures, 12);
  REQUIRE(lines.size() == 12);
  CHECK(lines.back() == "and 19 more");
  CHECK(stack_lines(pictures, 30).size() == 30);
  CHECK(stack_lines({}, 12).empty());
}

TEST_CASE("A picture that is too large loses outer callers, and other threads before the main one") {
  std::vector<ThreadStack> threads(20, other_in(Frames(30, kLocked[0])));
  threads.push_back(main_in(Frames(30, kLocked[1])));
  const ProcessPicture picture = picture_of(threads);
  const ProcessPicture whole = within(picture, 1 << 20);
  CHECK(whole.stacks.threads.size() == 21);
  CHECK(whole.stacks.error.empty());
  CHECK_FALSE(whole.stacks.threads.back().truncated);
  const ProcessPicture small = within(picture, 1024);
  REQUIRE_FALSE(small.stacks.threads.empty());
  const ThreadStack& main = small.stacks.threads.back();
  CHECK(main.is_main);
  CHECK(main.truncated);
  CHECK(main.frames.size() > 5);
  CHECK(main.frames.front() == kLocked[1]);
  CHECK(small.stacks.error.find("more threads are left out") != std::string::npos);
  CHECK(within(picture, 0).stacks.threads.empty());
}
