// SPDX-License-Identifier: Apache-2.0
// Real child processes whose output goes through a WorkerOutput to streams that the test holds the other end
// of.
#pragma once

#include "agent/process/output/worker_output.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/folder.hpp"

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace muster::agent::test {

using muster::test::bytes_of_file;
using muster::test::Folder;

/// The far end of one of our streams: collects what arrives, from a thread of its own.
class Collector {
 public:
  enum class Kind { pipe, terminal };
  explicit Collector(Kind kind = Kind::pipe, bool reading = true);
  ~Collector();

  /// What WorkerOutput writes to.
  int fd() const { return near_.get(); }

  /// The far end, for tests that act as a terminal.
  int far() const { return far_.get(); }

  /// Begins to read, for one that was made not reading.
  void start();
  /// Closes the far end, like `head` when it has enough.
  void hang_up();

  /// Leaves our end open for good: an abandoned thread may still be writing to it.
  void leave_open() { static_cast<void>(near_.release()); }

  /// Closes our end and waits for the rest.
  std::string finish();
  /// Blocks until `text` has arrived; false after 20 s.
  bool wait_for(const std::string& text);
  std::string so_far();

 private:
  UniqueFd near_;
  UniqueFd far_;
  std::thread thread_;
  std::mutex mutex_;
  std::string text_;
};

/// Runs shell scripts as workers and drives the executor until they are done.
class OutputJob {
 public:
  OutputJob(OutputSpec spec, int workers, StandardStreams ours);
  ~OutputJob();

  WorkerOutput& output();
  /// Starts `sh -c script` as this local rank (rank = 100 + local rank) in a session of its own.
  WorkerStreams start(int local_rank, const std::string& script, int round = 0);
  /// Until every started worker has ended and its streams are drained. Throws after `at_most`.
  void run(std::chrono::milliseconds at_most = std::chrono::seconds(40));
  /// run, then finish. Returns how long finish took.
  std::chrono::milliseconds finish(std::chrono::milliseconds at_most = std::chrono::seconds(20));
  /// Runs the executor until `ready` (asked every few milliseconds); throws after 20 s.
  void run_until(const std::function<bool()>& ready);
  /// Wait status of a worker that has ended.
  int status(int local_rank) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

std::vector<std::string> split_lines(const std::string& text);
/// Peak resident memory of this process in KiB; reset_peak() sets it to the present value.
long peak_resident_kib();
void reset_peak();

}  // namespace muster::agent::test
