// SPDX-License-Identifier: Apache-2.0
// What goes wrong on a host without the program's fault, and makes its workers fail or stand still: a file
// system without room, a quota of CPU time, a GPU that reports an error. From what the kernel and the driver
// tell to what is said. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

enum class HostCauseKind {
  full_disk,  ///< a file system has no room left
  throttled,  ///< the CPU quota of a control group holds its processes up
  gpu_error,  ///< the NVIDIA driver has reported a critical error of a GPU (Xid)
};

struct HostCause {
  HostCauseKind kind = HostCauseKind::full_disk;
  /// "the file system /scratch is full". It stays the same as long as the cause does.
  std::string text{};
  /// What changes meanwhile: "64.0 KiB of 10.0 GiB are free". May be empty.
  std::string detail{};

  bool operator==(const HostCause&) const = default;
};

/// "the file system /scratch is full; the control group ..."; empty for no causes.
std::string causes_text(const std::vector<HostCause>& causes);

/// "the file system /scratch is full (64.0 KiB of 10.0 GiB are free)".
std::string full_text(const HostCause& cause);

/// The file systems of this mount namespace.
class MountTable {
 public:
  /// `text`: that of /proc/self/mountinfo.
  explicit MountTable(const std::string& text);

  /// The mount point of the file system on which `path` (absolute, without links and dots) lies, if it is of
  /// a type whose data is on this machine: a question to it is answered, or fails, at once. nullopt for
  /// network file systems and FUSE, whose server may not answer for ever, for unknown types, and wherever
  /// such a one may hide the other.
  std::optional<std::string> local_mount_of(std::string_view path) const;

 private:
  struct Mount {
    std::string point{};
    bool local = false;
  };

  std::vector<Mount> mounts_;
};

/// The text of a symbolic link; nullopt if the path is none.
using ReadLink = std::function<std::optional<std::string>(const std::string&)>;

/// `path` without symbolic links and dots, if each part of the way to it lies on a local file system; nullopt
/// otherwise, and then no other file system has been asked for anything.
std::optional<std::string> local_path(const std::string& path, const MountTable& mounts,
                                      const ReadLink& read_link);

/// What a file system says of itself.
struct DiskRoom {
  std::uint64_t size = 0;
  std::uint64_t free = 0;
  /// 0 and 0 of one that does not count files.
  std::uint64_t files = 0;
  std::uint64_t free_files = 0;
};

/// A file system is full with less than 1 MiB, or less than a thousandth, but not if 64 MiB are left; or if
/// it takes no more files. nullopt if it is not.
std::optional<HostCause> full_disk(const std::string& mount, const DiskRoom& room);

/// The counts of one control group that has a CPU quota.
struct QuotaCounts {
  std::string group{};
  /// The CPU time that the group has in each period, and the period, in microseconds.
  std::uint64_t quota_us = 0;
  std::uint64_t period_us = 0;
  /// Periods so far in which it was held up, because it had used its time.
  std::uint64_t throttled_periods = 0;
};

/// Judges the quota of the agent's own control groups. One thread.
class ThrottleMeter {
 public:
  /// Takes the counts of now. Returns the group that was held up in more than a fifth of the time since the
  /// last call, the one that was so most; nullopt: none, or this is the first call.
  std::optional<HostCause> add(const std::vector<QuotaCounts>& counts,
                               std::chrono::steady_clock::time_point now);

 private:
  std::vector<QuotaCounts> last_;
  std::chrono::steady_clock::time_point last_at_{};
};

/// A critical error that the driver has reported of a GPU.
struct GpuError {
  int gpu = 0;
  /// On the PCI bus: "0000:3b:00.0"; empty: not known.
  std::string address{};
  std::uint64_t xid = 0;
  std::chrono::steady_clock::time_point at{};
};

/// What is said of an error for as long as it may be a cause: a GPU that is lost stays so, others count for
/// kXidCounts. nullopt after that.
std::optional<HostCause> gpu_error(const GpuError& error, std::chrono::steady_clock::time_point now);
inline constexpr std::chrono::minutes kXidCounts{2};

}  // namespace muster::agent
