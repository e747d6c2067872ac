// SPDX-License-Identifier: Apache-2.0
// Looks now and then whether this host is the cause why workers fail or stand still: full file systems, the
// CPU quota of a container, errors of GPUs.
#pragma once

#include "agent/core/host_causes.hpp"
#include "agent/gpu_events.hpp"
#include "rendezvous/base/cgroup.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::agent {

/// Used from the executor's one thread. It waits for nothing: file systems of other machines are not asked,
/// because the kernel would hold this process for as long as their server does not answer.
class HostWatch {
 public:
  struct Events {
    /// Returns the processes whose working directories count, and whether a hang is suspected.
    std::function<std::vector<pid_t>()> workers;
    std::function<bool()> suspects;
    /// Is called when there are other causes than before.
    std::function<void()> changed;
  };

  /// The longest time between two looks, and between two looks at file systems while no hang is suspected.
  static constexpr std::chrono::seconds kLookEach{10};
  static constexpr std::chrono::seconds kDisksEach{30};

  HostWatch(const boost::asio::any_io_executor& executor, Events events)
      : timer_(executor), events_(std::move(events)) {}

  /// Looks from now on: at the file systems of these folders, of TMPDIR, of /dev/shm and of where the workers
  /// are, and at the rest. `interval` is at most kLookEach. `gpus` is CUDA_VISIBLE_DEVICES as the workers
  /// inherit it.
  void start(std::chrono::milliseconds interval, std::vector<std::string> folders,
             const std::optional<std::string>& gpus);

  /// Looks at the file systems now; at the end of a round they may have room again in no time.
  void look_at_disks();

  /// What is wrong as of the last look.
  std::vector<HostCause> causes() const;

 private:
  void wait();
  void look();
  std::vector<std::string> folders() const;

  boost::asio::steady_timer timer_;
  Events events_;
  std::chrono::milliseconds interval_{kLookEach};
  std::vector<std::string> folders_;
  /// The control groups of this process that may have a CPU quota.
  std::vector<Cgroup> groups_;
  ThrottleMeter meter_;
  std::chrono::steady_clock::time_point disks_at_{};
  std::chrono::steady_clock::time_point quotas_at_{};
  std::vector<HostCause> disks_;
  std::optional<HostCause> throttled_;
  std::unique_ptr<GpuEvents> gpu_events_;
  std::string said_;
};

/// The counts of those groups that have a CPU quota now.
std::vector<QuotaCounts> read_quota_counts(const std::vector<Cgroup>& groups);

/// The full ones among the file systems on which these folders lie; each is asked once, and only if the whole
/// way to it is on this machine.
std::vector<HostCause> full_disks(const std::vector<std::string>& folders);

}  // namespace muster::agent
