// SPDX-License-Identifier: Apache-2.0
#include "skip.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace muster::test {
namespace {

bool any_skipped = false;

}  // namespace

void skip(const std::string& reason) {
  any_skipped = true;
  std::printf("skipped: %s\n", reason.c_str());
  std::fflush(stdout);
}

bool take_skipped() {
  return std::exchange(any_skipped, false);
}

std::string cifar10_directory() {
  const char* variable = std::getenv("MUSTER_TEST_CIFAR10");
  std::string directory = variable != nullptr ? variable : MUSTER_TEST_CIFAR10_DEFAULT;
  if (std::filesystem::exists(directory + "/data_batch_1.bin")) return directory;
  skip("no CIFAR-10 in " + directory + "; set MUSTER_TEST_CIFAR10 to the directory of its binary files");
  return "";
}

}  // namespace muster::test
