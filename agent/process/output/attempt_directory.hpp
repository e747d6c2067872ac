// SPDX-License-Identifier: Apache-2.0
// The directories for the files of one round, and in them of one worker: LOG_DIR/attempt_ROUND/LOCAL_RANK.
#pragma once

#include <string>

namespace muster::agent {

struct AttemptDirectory {
  std::string attempt;
  std::string worker;
  /// "PATH on HOST (reason)": could not be made; then the others are empty. Empty: all is there.
  std::string trouble;
};

/// Makes them, and `log_dir`, for our user only, where they are missing.
AttemptDirectory make_attempt_directory(const std::string& log_dir, const std::string& host, int round,
                                        int local_rank);

}  // namespace muster::agent
