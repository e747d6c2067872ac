// SPDX-License-Identifier: Apache-2.0
#include "launcher/files/ends_within.hpp"

#include "catch.hpp"
#include "folder.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

using muster::launcher::ends_within;
using namespace std::chrono_literals;

TEST_CASE("Work is done in a process of its own, and one that is held is left") {
  const muster::test::Folder folder;
  const std::string made = folder / "made";
  CHECK(ends_within(60s, [&] { std::filesystem::create_directory(made); }));
  CHECK(std::filesystem::exists(made));
  CHECK(ends_within(60s, [] { throw std::runtime_error("no"); }));
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(ends_within(20ms, [] {
    for (;;) ::pause();
  }));
  CHECK(std::chrono::steady_clock::now() - begin >= 20ms);
  // Nothing of them is left.
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("A pause of the whole machine is no silence of whom is waited for") {
  const pid_t waiting = ::fork();
  REQUIRE(waiting >= 0);
  if (waiting == 0)
    ::_exit(ends_within(2s,
                        [] {
                          const pid_t parent = ::getppid();
                          ::kill(parent, SIGSTOP);
                          std::this_thread::sleep_for(2300ms);
                          ::kill(parent, SIGCONT);
                        })
                ? 0
                : 1);
  int status = -1;
  CHECK(::waitpid(waiting, &status, 0) == waiting);
  CHECK(status == 0);
}
