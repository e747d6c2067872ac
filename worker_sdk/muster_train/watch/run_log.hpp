// SPDX-License-Identifier: Apache-2.0
// What a run tells on the way: lines or a bar on stdout, JSON lines, TensorBoard's events. Rank 0 alone has
// one.
#pragma once

#include "worker_sdk/muster_train/watch/event_file.hpp"
#include "worker_sdk/muster_train/watch/json_line.hpp"
#include "worker_sdk/muster_train/watch/progress.hpp"

#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

namespace muster::train {

struct LogOptions {
  Progress::Options progress;
  /// Steps between two entries in the files.
  std::int64_t metrics_every = 20;
  /// File that gets one JSON object a line, added to what is there; empty: none.
  std::string metrics;
  /// Folder for TensorBoard; empty: none.
  std::string tensorboard;
};

/// Writes what a run tells. One thread. Time is an argument, in seconds since the start of the run.
class RunLog {
 public:
  /// `write` gets text for stdout. Throws Error (io) where a file cannot be opened; when one cannot be
  /// written later, that is said once and the run goes on.
  RunLog(const LogOptions& options, std::function<void(const std::string&)> write);

  /// Writes the first entry of a run: what it was started with.
  void start(const JsonLine& facts);
  void begin_epoch(int epoch, Seconds now);
  /// The files get an entry every so many steps, and one of what is left where an epoch or the run ends.
  void step(const StepReport& report, Seconds now);
  void end_epoch(const Position& position, const Score& train, Seconds training, const Score& test,
                 Seconds now);
  /// A test of the whole set outside of epochs, or the last one.
  void evaluation(const Position& position, const Score& test, Seconds now);
  /// Bytes of rank 0, by what they hold.
  void memory(const Position& position, const MemoryTable& memory, Seconds now);
  /// What replicas of the network cost.
  void replicas(const ReplicaFigures& figures, const Position& position, Seconds now);
  /// A line for people and, as an event with this name, for programs.
  void note(const char* event, const std::string& text, const Position& position, Seconds now);

 private:
  void begin_window(Seconds now);
  void write_window();
  void write_json(const JsonLine& line);
  void flush_events();

  const LogOptions options_;
  const std::function<void(const std::string&)> write_;
  Progress progress_;
  Window window_;
  StepReport last_;  ///< the last step of the window
  Seconds last_at_{0};
  std::ofstream metrics_;
  bool metrics_failed_ = false;
  std::optional<EventFile> events_;
  bool events_failed_ = false;
};

}  // namespace muster::train
