// SPDX-License-Identifier: Apache-2.0
// The folders in which jobs of this user are found on this host: /tmp/muster-UID/JOB, for nobody else, each
// with the job's card and the socket at which its launcher answers.
#pragma once

#include "launcher/inspect/core/job_card.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::launcher {

/// Returns "/tmp/muster-UID" for the effective user.
std::string folder_of_jobs();

/// Whether a folder is a directory of this user that nobody else may enter; else `trouble` says what it is,
/// and what to do, and errno is ENOENT if there is none.
bool is_ours_alone(const std::string& path, std::string& trouble);

/// Calls `make`, which makes something in `folder`, once that is there and this user's alone. Whoever finds
/// the folder empty may remove it at any time: then both are done again. `make` returns false, with errno, if
/// it fails; ENOENT says that the folder is gone. Returns whether it has made it; else `trouble` may say why
/// not.
bool make_in_folder(const std::string& folder, std::string& trouble, const std::function<bool()>& make);

/// The folder of a running job, removed with this object, and the folder of all jobs with it if it was the
/// last one.
class JobFolder {
 public:
  /// Makes the folder `id` in `base`, and `base` if it is not there. nullopt if that cannot be done, or
  /// `base` is no directory, a link, another user's, or open to others; `trouble` then says why and what to
  /// do.
  static std::optional<JobFolder> make(const std::string& base, const std::string& id, std::string& trouble);

  JobFolder(JobFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

  JobFolder& operator=(JobFolder&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }

  ~JobFolder();

  /// Where the job's socket belongs.
  std::string socket() const { return path_ + "/socket"; }

  /// Writes the card, by which find_jobs() finds the job; the socket is to be there before. False, with
  /// errno, if it cannot be written.
  bool publish(const JobCard& card) const;

 private:
  explicit JobFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

struct FoundJob {
  JobCard card;
  std::string socket;
};

/// Returns the jobs in `base`, the oldest first. What launchers that are gone have left there is removed, and
/// counted in `removed`. `trouble` says why there may be more jobs.
std::vector<FoundJob> find_jobs(const std::string& base, std::string& trouble,
                                std::size_t* removed = nullptr);

}  // namespace muster::launcher
