// SPDX-License-Identifier: Apache-2.0
// sim_mutants [--seeds N] [--first-seed S]: for each planted bug, simulated jobs until the referee finds it.
#include "tests/sim/mutants/chosen.hpp"
#include "tests/sim/world.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

namespace {

using namespace muster::rendezvous;

constexpr const char* kNames[] = {
#include "mutant_names.inc"
};

struct Finding {
  std::uint64_t seed;
  std::string rule;
};

/// The first job in which a rule is broken.
std::optional<Finding> hunt(std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    sim::World world(seed, false);
    try {
      world.run();
    } catch (const sim::Violation& violation) {
      return Finding{seed, violation.what()};
    }
  }
  return std::nullopt;
}

/// The same in a process of its own, since an assertion of the coordinator may find the bug before the
/// referee does, and ends the process. Says what was found; returns whether anything was.
bool found_in_child(const char* name, std::uint64_t first, std::uint64_t count) {
  std::cout.flush();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    const auto finding = hunt(first, count);
    std::cout << (finding ? "found   " : "MISSED  ") << name << "\n        ";
    if (finding)
      std::cout << "seed " << finding->seed << ": " << finding->rule << std::endl;
    else
      std::cout << "no rule is broken in " << count << " jobs: the referee is blind to it" << std::endl;
    ::_exit(finding ? 0 : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  const bool asserted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  if (asserted) std::cout << "found   " << name << "\n        by the assertion above" << std::endl;
  return asserted || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int run(std::uint64_t first, std::uint64_t count) {
  const auto start = std::chrono::steady_clock::now();
  if (const auto finding = hunt(first, count)) {
    std::cerr << "sim_mutants: without a planted bug seed " << finding->seed << " fails: " << finding->rule
              << '\n';
    return 1;
  }
  int missed = 0;
  int number = 0;
  for (const char* name : kNames) {
    sim::chosen_mutant = number++;
    missed += !found_in_child(name, first, count);
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  std::cout << number - missed << " of " << number << " planted bugs found in " << passed.count() << " s\n";
  return missed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 1;
  std::uint64_t count = 3000;
  for (int i = 1; i < argc; i += 2) {
    const bool more = i + 1 < argc;
    if (more && std::strcmp(argv[i], "--seeds") == 0) {
      count = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (more && std::strcmp(argv[i], "--first-seed") == 0) {
      first = std::strtoull(argv[i + 1], nullptr, 10);
    } else {
      std::cerr << "usage: sim_mutants [--first-seed S] [--seeds N]\n";
      return 2;
    }
  }
  return run(first, count);
}
