// SPDX-License-Identifier: Apache-2.0
// Where the consoles of detached jobs are: a folder for each job, with the files of its console
// (core/console_files.hpp) and the card by which it is found when the job is gone. All are for nobody else.
#pragma once

#include "launcher/inspect/core/job_card.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

/// Returns "$XDG_STATE_HOME/muster", or ~/.local/state/muster; empty where there is neither.
std::string folder_of_consoles();

/// The folder of a job that is being started.
class NewConsoleFolder {
 public:
  /// Makes the folder `id` in `base`, and `base` and what is missing above it. `base_is_ours`: nobody else
  /// may have a look into `base` either. Throws LaunchError (125), and leaves nothing then.
  NewConsoleFolder(const std::string& base, const std::string& id, bool base_is_ours);

  const std::string& path() const { return path_; }

  /// Removes the folder with all that is in it, and what was made for it.
  void remove() const;

 private:
  void make(const std::string& path, unsigned mode);

  std::string path_;
  /// What was made, in this order.
  std::vector<std::string> made_;
};

/// Writes the card of the job into its folder. Throws LaunchError (125).
void write_console_card(const std::string& folder, const JobCard& card);

struct FoundConsole {
  std::string folder;
  JobCard card;
};

/// Returns the consoles below `base`, the folder of all, of this host's jobs, the oldest job first. What is
/// another user's, or open to others, is left out.
std::vector<FoundConsole> find_consoles(const std::string& base);

/// Removes the consoles of jobs of this host that are over and whose last line is older than a day; returns
/// how many. Jobs that run, and those of which this is not known, keep theirs.
std::size_t remove_old_consoles(const std::string& base, std::int64_t now_ms);

}  // namespace muster::launcher
