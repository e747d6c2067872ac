// SPDX-License-Identifier: Apache-2.0
// Lets the ranks of a host watch one another if no agent does.
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

/// The status file and process of another rank.
struct PeerSlot {
  int rank;
  StatusFile file;
  UniqueFd pidfd;  ///< descriptor of the process; empty when the process is gone
};

/// Tells the other ranks where this rank's file is and opens theirs. Ranks of other hosts, users and pid
/// namespaces are left out, and so are ranks that an agent watches (they tell no address, which costs a
/// moment). Never fails.
std::vector<PeerSlot> exchange_slots(StoreClient& store, const StatusWriter& own,
                                     const StatusOptions& options);

/// Watches the peers from a thread of its own as long as it lives.
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
