// SPDX-License-Identifier: Apache-2.0
// Reads the log files that the workers of a job on one host have left (--tee, --redirects), or still write.
#pragma once

#include "launcher/console/core/console_record.hpp"
#include "launcher/console/core/record_filter.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace muster::launcher {

/// The files below the log directory of a job. Used from one thread.
class LogFiles {
 public:
  using Take = std::function<void(const std::vector<ConsoleRecord>&)>;

  /// Files of ranks and rounds that `filter` does not want are not opened. Lines have no time there: a file
  /// that was not written since RecordFilter::since_ms begins with what is written later, any other is read
  /// whole.
  LogFiles(std::string log_dir, RecordFilter filter);

  /// Calls `take` with what was written since the last call, in the order of rounds and ranks, stdout before
  /// stderr; records have no time. Files of earlier rounds are read once more when another round has begun,
  /// and no more after that.
  void read(const Take& take);

  /// Whether there was any file.
  bool found() const { return found_; }

 private:
  using Stream = ConsoleRecord::Stream;
  /// Round, rank and stream.
  using Key = std::tuple<int, int, Stream>;

  /// A file that may get another name while it is read, since one of a bounded size has taken its place
  /// (--log-max-size).
  struct File {
    std::string path;
    UniqueFd fd{};
    ino_t inode = 0;
    /// What was read so far.
    std::int64_t at = 0;
    /// The one that had the name before, still to be read.
    UniqueFd earlier{};
  };

  void look_for_files();
  void add(const Key& key, std::string path);
  bool is_older(const struct stat& status) const;
  static void open_again(File& file);
  static void read_between(const File& file, ino_t read_before, const ConsoleRecord& pattern,
                           const Take& take);
  static void read_one(const Key& key, File& file, const Take& take);

  std::string log_dir_;
  RecordFilter filter_;
  std::map<Key, File> files_;
  int newest_round_ = 0;
  bool found_ = false;
};

}  // namespace muster::launcher
