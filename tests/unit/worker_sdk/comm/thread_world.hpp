// SPDX-License-Identifier: Apache-2.0
// Calls, and a function that runs as every rank of a world of threads.
#pragma once

#include "muster/error.hpp"
#include "tests/support/shm_groups.hpp"
#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/shm/shm_backend.hpp"

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace muster::test {

/// What became of one rank.
struct Outcome {
  std::optional<ErrorCode> code;
  std::string text;
};

inline ProcessGroupOptions options_with(std::chrono::milliseconds timeout) {
  ProcessGroupOptions options;
  options.timeout = timeout;
  return options;
}

/// Runs body(group) in a thread for each rank of `groups`; a rank that returns keeps its group until all have
/// ended.
inline std::vector<Outcome> run_ranks(std::vector<std::unique_ptr<ProcessGroup>>& groups,
                                      const std::function<void(ProcessGroup&)>& body) {
  std::vector<Outcome> outcomes(groups.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        body(*groups[i]);
      } catch (const Error& error) {
        outcomes[i] = {error.code(), error.what()};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

inline std::vector<Outcome> run_world(int size, const std::function<void(ProcessGroup&)>& body,
                                      std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  auto groups = shm::make_thread_groups(size, options_with(timeout));
  return run_ranks(groups, body);
}

}  // namespace muster::test
