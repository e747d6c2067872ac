// SPDX-License-Identifier: Apache-2.0
// What a command shows of a job's console.
#pragma once

#include "launcher/console/core/console_record.hpp"
#include "launcher/console/core/console_text.hpp"
#include "launcher/console/core/record_filter.hpp"
#include "launcher/inspect/core/job_card.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::launcher {

/// Between two looks at a console that is followed, and at whether its job is there.
inline constexpr std::chrono::milliseconds kLookAtConsoleEvery{50};
inline constexpr std::chrono::milliseconds kLookAtJobEvery{1000};
/// The console process writes what it still has after the job, and may wait for a disk.
inline constexpr std::chrono::seconds kConsoleOutlivesJob{12};

/// Collects the text for a descriptor, stdout unless Form says another one. Used from one thread.
class ConsoleView {
 public:
  struct Form {
    bool json = false;
    bool times = false;
    /// The descriptor to which the text goes: workers must not steer a terminal.
    int to = 1;
  };

  ConsoleView(const JobCard& card, RecordFilter filter, Form form);

  /// Adds those of some records that are wanted.
  void add(const std::vector<ConsoleRecord>& records);
  /// Says that no record follows.
  void finish();

  /// Returns the text that nobody has taken yet.
  std::string& text() { return text_; }

  /// Whether the job's last record was among those that were added, wanted or not.
  bool has_ended() const { return has_ended_; }

  /// Returns what that says; nullopt: nothing, its launcher was killed.
  std::optional<std::int64_t> exit_code() const { return exit_code_; }

 private:
  RecordFilter filter_;
  bool json_;
  ConsoleText lines_;
  std::string text_;
  bool has_ended_ = false;
  std::optional<std::int64_t> exit_code_;
};

}  // namespace muster::launcher
