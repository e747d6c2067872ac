// SPDX-License-Identifier: Apache-2.0
// The ranks of a shared-memory group as threads of one test: the real algorithms, in the way of every
// sanitizer.
#pragma once

#include "tests/support/shm_groups.hpp"

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace muster::test {

/// Runs `body` once per rank, each in a thread; returns what each rank threw ("" for nothing). A rank that
/// throws aborts the group, as a process that ends would.
inline std::vector<std::string> run_shm_ranks(int ranks, const std::function<void(ProcessGroup&)>& body) {
  ProcessGroupOptions options;
  options.timeout = std::chrono::seconds(60);
  auto groups = shm::make_thread_groups(ranks, options);
  std::vector<std::string> errors(groups.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < groups.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(*groups[rank]);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
        groups[rank]->abort("rank " + std::to_string(rank) + " ended");
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace muster::test
