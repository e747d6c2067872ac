// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/program/process.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace muster::examples {
namespace {

constexpr const char* kSpins = "GOMP_SPINCOUNT";
/// About 25 ns each on Zen 4. Most gaps between two parallel loops of a step are shorter.
constexpr const char* kSpinCount = "2000";

}  // namespace

void wait_shortly(char** argv) {
  if (std::getenv(kSpins) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  // The file itself, not the link to it, lest the process be called by the link's name.
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error && setenv(kSpins, kSpinCount, 0) == 0) execv(program.c_str(), argv);
  // Without /proc, or when the file has gone, training is slower beside others, and right all the same.
}

}  // namespace muster::examples
