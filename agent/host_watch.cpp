// SPDX-License-Identifier: Apache-2.0
#include "agent/host_watch.hpp"

#include "agent/nccl_ras_client.hpp"
#include "agent/process/temporary_directory.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;

/// Time over which the CPU quota is judged, however often is looked.
constexpr std::chrono::seconds kQuotaEach{10};
constexpr std::size_t kMountsBytesMax = std::size_t{4} << 20U;
constexpr std::size_t kPathMax = 4096;
/// Most processes whose working directory is looked at; workers usually share one.
constexpr std::size_t kWorkersMax = 64;

std::optional<std::string> read_link(const std::string& path) {
  std::array<char, kPathMax> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  if (length <= 0 || static_cast<std::size_t>(length) >= target.size()) return std::nullopt;
  return std::string(target.data(), static_cast<std::size_t>(length));
}

std::optional<DiskRoom> room_of(const std::string& path) {
  struct statvfs room {};

  if (::statvfs(path.c_str(), &room) != 0) return std::nullopt;
  // What is kept back for root is no room for anybody else.
  const bool is_root = ::geteuid() == 0;
  const std::uint64_t unit = room.f_frsize;
  return DiskRoom{room.f_blocks * unit, (is_root ? room.f_bfree : room.f_bavail) * unit, room.f_files,
                  is_root ? room.f_ffree : room.f_favail};
}

/// Reads "max 100000" or "200000 100000", or the two files of version 1.
std::optional<QuotaCounts> counts_of(const Cgroup& group) {
  QuotaCounts counts;
  counts.group = group.name;
  if (group.unified) {
    const std::string text = read_file(group.folder + "/cpu.max", kPathMax).value_or("");
    const std::size_t blank = text.find(' ');
    if (blank == std::string::npos) return std::nullopt;
    const auto quota = parse_number<std::uint64_t>(text.substr(0, blank));
    const auto period = parse_number<std::uint64_t>(text.substr(blank + 1, text.find('\n') - blank - 1));
    if (!quota || !period) return std::nullopt;
    counts.quota_us = *quota;
    counts.period_us = *period;
  } else {
    const auto quota = cgroup_number(group, "cpu.cfs_quota_us");
    const auto period = cgroup_number(group, "cpu.cfs_period_us");
    if (!quota || !period) return std::nullopt;
    counts.quota_us = *quota;
    counts.period_us = *period;
  }
  if (counts.period_us == 0) return std::nullopt;
  const auto throttled = cgroup_number(group, "cpu.stat", "nr_throttled");
  if (!throttled) return std::nullopt;
  counts.throttled_periods = *throttled;
  return counts;
}

}  // namespace

std::vector<QuotaCounts> read_quota_counts(const std::vector<Cgroup>& groups) {
  std::vector<QuotaCounts> counts;
  for (const Cgroup& group : groups)
    if (auto one = counts_of(group)) counts.push_back(std::move(*one));
  return counts;
}

std::vector<HostCause> full_disks(const std::vector<std::string>& folders) {
  std::vector<HostCause> full;
  const auto text = read_file("/proc/self/mountinfo", kMountsBytesMax);
  if (!text) return full;
  const MountTable mounts(*text);
  std::set<std::string> asked;
  for (const std::string& folder : folders) {
    const auto path = local_path(folder, mounts, read_link);
    const auto mount = path ? mounts.local_mount_of(*path) : std::nullopt;
    if (!mount || !asked.insert(*mount).second) continue;
    const auto room = room_of(*path);
    if (!room) continue;
    if (auto cause = full_disk(*mount, *room)) full.push_back(std::move(*cause));
  }
  return full;
}

void HostWatch::start(std::chrono::milliseconds interval, std::vector<std::string> folders,
                      const std::optional<std::string>& gpus) {
  interval_ = std::min<std::chrono::milliseconds>(interval, kLookEach);
  folders_ = std::move(folders);
  folders_.push_back(temporary_directory());
  folders_.emplace_back("/dev/shm");
  groups_ = own_cgroups("cpu");
  if (NcclRasClient::has_nvidia_driver()) gpu_events_ = std::make_unique<GpuEvents>(gpus);
  disks_at_ = Clock::now();
  look();
  wait();
}

void HostWatch::wait() {
  timer_.expires_after(interval_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    look();
    wait();
  });
}

void HostWatch::look() {
  const auto now = Clock::now();
  if (now - quotas_at_ >= kQuotaEach - interval_ / 2) {
    quotas_at_ = now;
    throttled_ = meter_.add(read_quota_counts(groups_), now);
  }
  if (now - disks_at_ >= kDisksEach || (events_.suspects && events_.suspects())) look_at_disks();
  if (std::string text = causes_text(causes()); text != said_) {
    said_ = std::move(text);
    if (events_.changed) events_.changed();
  }
}

void HostWatch::look_at_disks() {
  disks_at_ = Clock::now();
  disks_ = full_disks(folders());
}

std::vector<std::string> HostWatch::folders() const {
  std::vector<std::string> folders = folders_;
  std::vector<pid_t> workers = events_.workers ? events_.workers() : std::vector<pid_t>{};
  workers.resize(std::min(workers.size(), kWorkersMax));
  // Where a worker is when it starts, in place of one that has ended.
  if (const auto own = read_link("/proc/self/cwd")) folders.push_back(*own);
  for (const pid_t worker : workers)
    if (const auto folder = read_link("/proc/" + std::to_string(worker) + "/cwd")) folders.push_back(*folder);
  return folders;
}

std::vector<HostCause> HostWatch::causes() const {
  std::vector<HostCause> causes = disks_;
  if (throttled_) causes.push_back(*throttled_);
  if (!gpu_events_) return causes;
  const auto now = Clock::now();
  for (const GpuError& error : gpu_events_->errors())
    if (auto cause = gpu_error(error, now)) causes.push_back(std::move(*cause));
  return causes;
}

}  // namespace muster::agent
