// SPDX-License-Identifier: Apache-2.0
#include "agent/core/host_causes.hpp"

#include "agent/core/memory_end.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <sstream>
#include <utility>

namespace muster::agent {
namespace {

/// The types of file systems whose data is on this machine.
constexpr std::array<std::string_view, 12> kLocalTypes{
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "overlay", "tmpfs", "ramfs", "devtmpfs", "rootfs"};

constexpr std::uint64_t kFullBelow = std::uint64_t{1} << 20U;
constexpr std::uint64_t kFullPart = 1000;
constexpr std::uint64_t kNeverFullFrom = std::uint64_t{64} << 20U;

/// The part of the time, in percent, from which on a group is said to be held up.
constexpr std::uint64_t kThrottledPercent = 20;

/// The kernel's own bound on the links in a path.
constexpr int kLinksMax = 40;

/// Whether `path` is `folder` or lies in it.
bool lies_in(std::string_view path, std::string_view folder) {
  if (folder == "/") return path.starts_with('/');
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/// "2", "0.5", "1.25".
std::string cpus_text(std::uint64_t quota_us, std::uint64_t period_us) {
  const std::uint64_t hundredths = (quota_us * 100 + period_us / 2) / period_us;
  std::string text = std::to_string(hundredths / 100);
  if (hundredths % 100 != 0) {
    std::string digits = std::to_string(100 + hundredths % 100).substr(1);
    if (digits.back() == '0') digits.pop_back();
    text += "." + digits;
  }
  return text + (hundredths == 100 ? " CPU" : " CPUs");
}

struct XidMeaning {
  std::uint64_t xid = 0;
  const char* text = "";
  /// Whether the GPU stays unfit until somebody resets it.
  bool lasts = false;
};

/// Of NVIDIA's catalogue of Xid errors what jobs meet most.
constexpr std::array<XidMeaning, 17> kXids{{
    {13, "an exception in a kernel of the program", false},
    {31, "an access to memory that is not there, usually of the program", false},
    {43, "the program's channel was stopped after an error of its own", false},
    {45, "work was removed because the program ended, or after another error", false},
    {48, "a memory error that could not be corrected", true},
    {62, "its controller has halted", true},
    {63, "a part of its memory was taken out of use", false},
    {64, "a part of its memory could not be taken out of use", true},
    {74, "an error of NVLink", true},
    {79, "it has fallen off the bus", true},
    {92, "many memory errors that were corrected", false},
    {94, "a memory error that hit one program", false},
    {95, "a memory error that may have hit all programs", true},
    {109, "a switch of its context took too long", false},
    {119, "its system processor does not answer", true},
    {120, "its system processor has failed", true},
    {154, "it needs a reset", true},
}};

}  // namespace

std::string full_text(const HostCause& cause) {
  return cause.text + (cause.detail.empty() ? "" : " (" + cause.detail + ")");
}

std::string causes_text(const std::vector<HostCause>& causes) {
  return joined_by(
      causes, [](const HostCause& cause) { return std::string_view(cause.text); }, "; ");
}

MountTable::MountTable(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream place(line.substr(0, dash));
    std::string word;
    std::string point;
    place >> word >> word >> word >> word >> point;
    const std::string type = line.substr(dash + 3, line.find(' ', dash + 3) - dash - 3);
    const bool local = std::find(kLocalTypes.begin(), kLocalTypes.end(), type) != kLocalTypes.end();
    mounts_.push_back({octal_unescaped(point), local});
  }
}

std::optional<std::string> MountTable::local_mount_of(std::string_view path) const {
  const Mount* found = nullptr;
  for (const Mount& mount : mounts_) {
    if (!lies_in(path, mount.point)) continue;
    // Later mounts may lie over earlier ones that are deeper; which of them is seen need not be known.
    if (found == nullptr || mount.point.size() >= found->point.size() || !mount.local) found = &mount;
  }
  return found != nullptr && found->local ? std::optional(found->point) : std::nullopt;
}

std::optional<std::string> local_path(const std::string& path, const MountTable& mounts,
                                      const ReadLink& read_link) {
  if (!path.starts_with('/')) return std::nullopt;
  std::string done;
  std::string rest = path;
  int links = 0;
  while (!rest.empty()) {
    const std::size_t begin = rest.find_first_not_of('/');
    if (begin == std::string::npos) break;
    const std::size_t end = std::min(rest.find('/', begin), rest.size());
    const std::string part = rest.substr(begin, end - begin);
    rest.erase(0, end);
    if (part == ".") continue;
    if (part == "..") {
      done.erase(std::min(done.rfind('/'), done.size()));
      continue;
    }
    const std::string next = done + "/" + part;
    // The link is an entry of the folder before it; only what is not local there is not looked at.
    if (!mounts.local_mount_of(done.empty() ? "/" : done) || !mounts.local_mount_of(next))
      return std::nullopt;
    const auto link = read_link(next);
    if (!link) {
      done = next;
      continue;
    }
    if (link->empty() || ++links > kLinksMax) return std::nullopt;
    if (link->starts_with('/')) done.clear();
    rest = *link + rest;
    if (!rest.starts_with('/')) rest.insert(0, "/");
  }
  return done.empty() ? "/" : done;
}

std::optional<HostCause> full_disk(const std::string& mount, const DiskRoom& room) {
  const bool no_room = room.size > 0 && room.free < kNeverFullFrom &&
                       (room.free < kFullBelow || room.free < room.size / kFullPart);
  const bool no_files = room.files > 0 && room.free_files == 0;
  if (!no_room && !no_files) return std::nullopt;
  HostCause cause;
  cause.kind = HostCauseKind::full_disk;
  cause.text = "the file system " + mount + (no_room ? " is full" : " takes no more files");
  cause.detail = no_room ? memory_text(room.free) + " of " + memory_text(room.size) + " are free"
                         : "all its " + std::to_string(room.files) + " inodes are used";
  return cause;
}

std::optional<HostCause> ThrottleMeter::add(const std::vector<QuotaCounts>& counts,
                                            std::chrono::steady_clock::time_point now) {
  const std::vector<QuotaCounts> before = std::exchange(last_, counts);
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(now - std::exchange(last_at_, now));
  if (time.count() <= 0) return std::nullopt;
  const auto time_us = static_cast<std::uint64_t>(time.count());
  const QuotaCounts* most = nullptr;
  std::uint64_t most_percent = kThrottledPercent;
  for (const QuotaCounts& one : counts) {
    const auto same = std::find_if(before.begin(), before.end(),
                                   [&one](const QuotaCounts& other) { return other.group == one.group; });
    if (same == before.end() || one.period_us == 0 || one.throttled_periods < same->throttled_periods)
      continue;
    const std::uint64_t held_us = (one.throttled_periods - same->throttled_periods) * one.period_us;
    const std::uint64_t percent = std::min<std::uint64_t>(held_us * 100 / time_us, 100);
    if (percent <= most_percent) continue;
    most = &one;
    most_percent = percent;
  }
  if (most == nullptr) return std::nullopt;
  HostCause cause;
  cause.kind = HostCauseKind::throttled;
  cause.text = "processes are throttled by the control group " + most->group + " to " +
               cpus_text(most->quota_us, most->period_us);
  cause.detail = "in " + std::to_string(most_percent) + " % of the time";
  return cause;
}

std::optional<HostCause> gpu_error(const GpuError& error, std::chrono::steady_clock::time_point now) {
  const auto* const known = std::find_if(kXids.begin(), kXids.end(),
                                         [&error](const XidMeaning& one) { return one.xid == error.xid; });
  const bool lasts = known != kXids.end() && known->lasts;
  const auto ago = now - error.at;
  if (!lasts && ago > kXidCounts) return std::nullopt;
  HostCause cause;
  cause.kind = HostCauseKind::gpu_error;
  cause.text = "GPU " + std::to_string(error.gpu) +
               (error.address.empty() ? "" : " (" + error.address + ")") + " had Xid " +
               std::to_string(error.xid);
  if (known != kXids.end()) cause.text += std::string(": ") + known->text;
  cause.detail = std::to_string(std::chrono::duration_cast<std::chrono::seconds>(ago).count()) + " s ago";
  return cause;
}

}  // namespace muster::agent
