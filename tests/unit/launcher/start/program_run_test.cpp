// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/program_run.hpp"

#include "agent/process/signal_state.hpp"
#include "catch.hpp"
#include "launcher/doctor/read_python.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/folder.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>

using namespace muster;
using namespace muster::launcher;
using namespace std::chrono_literals;

namespace {

std::vector<ProgramEnd> run_shells(const std::vector<std::string>& scripts,
                                   std::chrono::milliseconds at_most) {
  std::vector<StartedProcess> programs;
  for (const std::string& script : scripts)
    programs.push_back(spawn_client({"sh", "-c", script}, agent::SignalState::capture()));
  return run_to_ends(std::move(programs), at_most);
}

}  // namespace

TEST_CASE("Programs run side by side, and each end has its streams and its code") {
  const auto ends =
      run_shells({"echo out; echo err >&2; exit 3", "cat; kill -TERM $$", "head -c 1000000 /dev/zero"}, 20s);
  REQUIRE(ends.size() == 3);
  CHECK(ends[0].out == "out\n");
  CHECK(ends[0].errors == "err\n");
  CHECK(ends[0].exit_code == 3);
  CHECK(ends[1].signal == SIGTERM);
  CHECK_FALSE(ends[1].timed_out);
  CHECK(ends[2].out.size() == kProgramOutputMax);
  CHECK(ends[2].exit_code == 0);
}

TEST_CASE("A program that does not end is killed with what it has started, and what it said is kept") {
  // On a busy machine it may not have begun so soon, or be gone so soon.
  for (const auto at_most : {300ms, 3000ms, 30'000ms}) {
    const auto begin = std::chrono::steady_clock::now();
    const auto ends = run_shells({"echo begun; sleep 600; echo never"}, at_most);
    CHECK(ends[0].timed_out);
    CHECK(std::chrono::steady_clock::now() - begin < at_most + 20s);
    if ((ends[0].out.empty() || ends[0].signal == 0) && at_most < 30s) continue;
    CHECK(ends[0].out == "begun\n");
    CHECK(ends[0].signal == SIGKILL);
    return;
  }
}

TEST_CASE("A stream that a program leaves open to another is not waited for") {
  // The other holds it until this test lets go of a pipe.
  const test::Folder folder;
  const std::string held = folder / "held";
  REQUIRE(::mkfifo(held.c_str(), 0600) == 0);
  UniqueFd holder(::open(held.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(holder);
  const auto begin = std::chrono::steady_clock::now();
  const auto ends = run_shells({"exec 3<'" + held + "'; echo said; setsid cat <&3 & exit 0"}, 60s);
  CHECK(ends[0].out == "said\n");
  CHECK_FALSE(ends[0].timed_out);
  CHECK(std::chrono::steady_clock::now() - begin < 50s);
  holder.reset();
}

TEST_CASE("An interpreter is asked; one that is none, or is missing, is named") {
  const test::Folder folder;
  const auto signals = agent::SignalState::capture();
  const std::string fake =
      folder.write("python", "#!/bin/sh\necho '{\"version\": \"3.10.4\", \"torch\": \"2.0\"}'\n", 0700);
  const PythonFacts facts = read_python(fake, true, signals);
  CHECK(facts.found);
  CHECK(facts.version == "3.10.4");
  CHECK(facts.torch == "2.0");
  const std::string broken = folder.write("broken", "#!/bin/sh\necho 'no module' >&2; exit 1\n", 0700);
  CHECK(read_python(broken, true, signals).error == "no module");
  CHECK(read_python(broken, true, signals).version.empty());
  CHECK_FALSE(read_python(folder / "absent", true, signals).found);
  CHECK_FALSE(read_python("no-such-interpreter", false, signals).found);
}
