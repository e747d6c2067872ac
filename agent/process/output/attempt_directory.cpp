// SPDX-License-Identifier: Apache-2.0
#include "agent/process/output/attempt_directory.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace muster::agent {
namespace {

/// Makes one directory (0700) unless it is there. Returns errno, or 0.
int make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return 0;
  if (errno != EEXIST) return errno;

  struct stat status {};

  if (::stat(path.c_str(), &status) != 0) return errno;
  return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
}

}  // namespace

AttemptDirectory make_attempt_directory(const std::string& log_dir, const std::string& host, int round,
                                        int local_rank) {
  const std::string attempt = log_dir + "/attempt_" + std::to_string(round);
  const std::string worker = attempt + "/" + std::to_string(local_rank);
  for (const std::string& path : {log_dir, attempt, worker})
    if (const int error = make_directory(path); error != 0)
      return {{}, {}, path + " on " + host + " (" + std::generic_category().message(error) + ")"};
  return {attempt, worker, {}};
}

}  // namespace muster::agent
