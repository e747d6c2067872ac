// SPDX-License-Identifier: Apache-2.0
// Writes the workers' log files from a thread of its own: a slow, full, read-only or hung disk holds up
// neither the agent nor a worker. What a file cannot take is left out, and a line in the file says so.
#pragma once

#include "rendezvous/base/wake_up.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace muster::agent {

/// All calls come from one thread. `wake_up` is signalled when full() or ended() may have changed.
class LogWriter {
 public:
  using File = int;

  /// Bytes that may wait for one file; as many again may be in the write that is under way.
  static constexpr std::size_t kQueueBytes = std::size_t{1} << 20;

  /// `host` is for notes.
  LogWriter(std::string host, std::shared_ptr<WakeUp> wake_up);
  /// Waits 100 ms at most for a write under way; abandons the thread if that is stuck.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Adds a file (0600), which the thread makes. A failure is a note, and the thread tries again with later
  /// output. Beyond `max_bytes` (0: never) the file gets the name PATH.1, in place of an earlier one of that
  /// name, and another one begins (core/output/log_rotation.hpp).
  File open(std::string path, std::uint64_t max_bytes = 0);
  void append(File id, std::string_view bytes);
  bool full(File id) const;
  /// Drops what is appended until half of the queue is free again, because the disk is too slow for this
  /// file.
  void drop_until_room(File id);
  /// Closes the file after all that waits for it has been written.
  void close(File id);
  /// Closes all files, for which no append() follows; the thread ends when everything is written.
  void stop();
  bool ended() const;
  std::vector<std::string> notes() const;

 private:
  struct LogFile;
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace muster::agent
