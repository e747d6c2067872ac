// SPDX-License-Identifier: Apache-2.0
// The ranks of a host watch one another where no agent does.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/base/wake_up.hpp"
#include "worker_sdk/status/diagnosis.hpp"
#include "worker_sdk/status/observed_groups.hpp"
#include "worker_sdk/status/status.hpp"
#include "worker_sdk/status/status_file.hpp"
#include "worker_sdk/status/status_writer.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace muster::status {

/// The status file of another rank, and its process.
struct PeerSlot {
  int rank;
  StatusFile file;
  UniqueFd pidfd;  ///< empty when the process is gone
};

/// Tells the other ranks where our file is and opens theirs. Those of other hosts, users and pid namespaces
/// are left out, as are ranks that an agent watches (they tell nothing; that costs a moment). Never fails.
std::vector<PeerSlot> exchange_slots(StoreClient& store, const StatusWriter& own,
                                     const StatusOptions& options);

/// Watches the peers from a thread of its own until its end.
class PeerSlots {
 public:
  PeerSlots(std::shared_ptr<Watchers> watchers, std::vector<PeerSlot> peers, StatusOptions options);
  ~PeerSlots();
  PeerSlots(const PeerSlots&) = delete;
  PeerSlots& operator=(const PeerSlots&) = delete;

 private:
  void watch();
  bool wait_for_events();
  void look();
  std::vector<RankView> views() const;
  void say_who_died(const std::vector<RankView>& ranks, std::uint64_t now);
  std::string death_of(const RankView& view, std::uint64_t now) const;
  void end_if_lost(const Wait& wait, const std::vector<RankView>& ranks, std::uint64_t now);
  void report(const Wait& wait, std::vector<RankView>& ranks, std::uint64_t now);

  std::shared_ptr<Watchers> watchers_;
  std::vector<PeerSlot> peers_;
  StatusOptions options_;
  WakeUp wake_up_;
  bool somebody_died_ = false;
  std::vector<int> just_died_;
  using Key = std::tuple<std::uint64_t, bool, std::uint64_t>;
  std::set<Key> reported_;
  std::set<Key> suspected_;  ///< waits in which a rank was dead at the last look
  std::thread thread_;
};

}  // namespace muster::status
