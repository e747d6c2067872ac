// SPDX-License-Identifier: Apache-2.0
// Shows records of a console to people. Pure.
#pragma once

#include "agent/core/output/terminal_filter.hpp"
#include "launcher/console/core/console_record.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace muster::launcher {

/// Lines look as on the console of a job that is not detached: our own messages as they are, those of workers
/// with "[RANK]: " before them where the job has several.
class ConsoleText {
 public:
  struct Options {
    /// Whether a rank stands before each line of a worker.
    bool ranks = true;
    /// Whether the time, in UTC, stands before each line.
    bool times = false;
    /// Whether what is returned goes to a terminal, which workers must not steer.
    bool terminal = false;
  };

  explicit ConsoleText(Options options) : options_(options) {}

  /// Appends what is to be shown for a record; nothing for the end.
  void show(const ConsoleRecord& record, std::string& out);
  /// Appends what is left when no record follows.
  void end(std::string& out);

 private:
  /// Rank and stream, by which a line that goes on is found again.
  using Source = std::pair<int, ConsoleRecord::Stream>;

  void begin_line(const ConsoleRecord& record, std::string& out) const;
  void add_text(const Source& source, const std::string& text, std::string& out);

  Options options_;
  /// Whose line is not ended yet.
  std::optional<Source> open_;
  std::map<Source, agent::TerminalFilter> filters_;
  std::string room_;
};

}  // namespace muster::launcher
