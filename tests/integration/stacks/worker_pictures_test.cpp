// SPDX-License-Identifier: Apache-2.0
// What is noted of real workers before they are killed.
#include "agent/stacks/worker_pictures.hpp"

#include "agent/process/process_tree.hpp"
#include "catch.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "tests/integration/stacks/program.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/skip.hpp"

#include <filesystem>

using namespace muster::agent;
using muster::agent::test::ask_until;
using muster::agent::test::Program;
using muster::test::Folder;

namespace {

constexpr std::size_t kBytes = 1 << 16;
constexpr const char* kPython = "/usr/bin/python3";
constexpr const char* kHangs = R"(import threading

def hang():
    lock = threading.Lock()
    lock.acquire()
    print("ready", flush=True)
    lock.acquire()

hang()
)";

std::vector<ProcessPicture> pictures_of(const Program& program, bool living = true,
                                        std::chrono::milliseconds time = std::chrono::seconds(20)) {
  WorkerPictures pictures;
  pictures.take({{3, program.pid(), living}}, time);
  CHECK(pictures.of(0, true, kBytes).empty());
  return pictures.of(3, true, kBytes);
}

/// Waits until the main thread has come to the lock.
std::vector<ProcessPicture> pictures_of_hung(const Program& program, bool living = true) {
  return ask_until([&] { return pictures_of(program, living); },
                   [](const std::vector<ProcessPicture>& now) {
                     return now.size() == 1 && !now[0].stacks.threads.empty() &&
                            now[0].state.starts_with("sleeping") &&
                            now[0].stacks.threads[0].frames.size() == 2 &&
                            now[0].stacks.threads[0].frames[0].line == 7;
                   });
}

void check_hangs(const std::vector<ProcessPicture>& pictures, const std::string& script) {
  REQUIRE(pictures.size() == 1);
  const ProcessPicture& picture = pictures[0];
  INFO(picture.stacks.error);
  CHECK(picture.name.starts_with("python3"));
  CHECK(picture.state.starts_with("sleeping"));
  REQUIRE(picture.stacks.threads.size() == 1);
  CHECK(picture.stacks.threads[0].frames == std::vector<Frame>{{script, 7, "hang"}, {script, 9, "<module>"}});
}

bool no_python() {
  if (std::filesystem::exists(kPython)) return false;
  muster::test::skip(std::string("there is no ") + kPython);
  return true;
}

}  // namespace

TEST_CASE("A worker that is a Python program is looked at itself") {
  if (no_python()) return;
  const Folder folder;
  const std::string script = folder.write("hangs.py", kHangs);
  const Program program({kPython, script});
  check_hangs(pictures_of_hung(program), script);
}

TEST_CASE("Below a shell, or two, the Python program is found") {
  if (no_python()) return;
  const Folder folder;
  const std::string script = folder.write("hangs.py", kHangs);
  const std::string python = std::string(kPython) + " " + script;
  for (const std::string& command :
       {python + "; true", "sh -c '" + python + "; true'; true", "sleep 600 | " + python}) {
    INFO(command);
    const Program program({"/bin/sh", "-c", command});
    check_hangs(pictures_of_hung(program), script);
  }
}

TEST_CASE("What a worker has left running is looked at when its own process has ended") {
  if (no_python()) return;
  become_subreaper();
  const Folder folder;
  const std::string script = folder.write("hangs.py", kHangs);
  const Program program({"/bin/sh", "-c", std::string(kPython) + " " + script + " & echo $!"});
  check_hangs(pictures_of_hung(program, false), script);
  end_all_descendants({}, 10'000);
}

TEST_CASE("Programs without Python have a name and a state") {
  const Program sleeps({"/bin/sh", "-c", "echo ready; exec sleep 600"});
  const auto asleep =
      ask_until([&] { return pictures_of(sleeps); },
                [](const auto& now) {
                  return now.size() == 1 && now[0].name == "sleep" && now[0].state.starts_with("sleeping");
                });
  REQUIRE(asleep.size() == 1);
  CHECK(asleep[0].stacks.error == kNoPython);
  CHECK(asleep[0].state.starts_with("sleeping"));
  ::kill(sleeps.pid(), SIGSTOP);
  const auto stopped =
      ask_until([&] { return pictures_of(sleeps); },
                [](const auto& now) { return now.size() == 1 && now[0].state.starts_with("stopped"); });
  REQUIRE(stopped.size() == 1);
  CHECK(stopped[0].state == "stopped by a signal");
}

TEST_CASE(
    "A worker that then ended by itself has no picture, but what one has left running that had ended before "
    "has") {
  const Program shell({"/bin/sh", "-c", "echo ready; sleep 600; true"});
  ask_until([&] { return descendants_of(shell.pid()).size(); },
            [](std::size_t children) { return children == 1; });
  WorkerPictures pictures;
  pictures.take({{0, shell.pid(), true}, {1, shell.pid(), false}}, std::chrono::seconds(20));
  for (const bool killed : {true, false}) {
    CHECK(pictures.of(0, killed, kBytes).size() == (killed ? 1 : 0));
    CHECK(pictures.of(1, killed, kBytes).size() == 1);
  }
}

TEST_CASE("A worker is looked at once, and not at all without time") {
  const Program shell({"/bin/sh", "-c", "echo ready; sleep 600; true"});
  ask_until([&] { return pictures_of(shell); },
            [](const auto& now) { return now.size() == 1 && now[0].state.starts_with("sleeping"); });
  WorkerPictures pictures;
  pictures.take({{0, shell.pid(), true}}, std::chrono::seconds(20));
  REQUIRE(pictures.of(0, true, kBytes).size() == 1);
  ::kill(shell.pid(), SIGSTOP);
  pictures.take({{0, shell.pid(), true}}, std::chrono::seconds(20));
  CHECK(pictures.of(0, true, kBytes)[0].state.starts_with("sleeping"));
  const auto begin = std::chrono::steady_clock::now();
  pictures_of(shell, true, std::chrono::milliseconds(0));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
  WorkerPictures none;
  none.take({{0, 0, false}, {1, -1, true}}, std::chrono::seconds(1));
  CHECK(none.of(0, true, kBytes).empty());
  CHECK(none.of(1, true, kBytes).empty());
}
