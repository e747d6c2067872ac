// SPDX-License-Identifier: Apache-2.0
#include "launcher/files/ends_within.hpp"

#include "catch.hpp"
#include "folder.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <stdexcept>

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
