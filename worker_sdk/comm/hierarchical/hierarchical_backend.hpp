// SPDX-License-Identifier: Apache-2.0
// Uses shared memory inside each host and Gloo between hosts. In every collective the ranks of a host first
// compare their calls in shared memory, then the first ranks of the hosts ("leaders") compare theirs over
// Gloo. barrier, broadcast, reduce and all_reduce go through the leaders. Data that is not combined crosses
// the network once in any case, so the other collectives, sends and receives go through Gloo among all ranks.
#pragma once

#include "worker_sdk/comm/backend.hpp"
#include "worker_sdk/comm/group_plan.hpp"
#include "worker_sdk/comm/plugin/failure_channel.hpp"
#include "worker_sdk/comm/plugin/plugin_backend.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace muster::hierarchical {

/// The hosts of a group and their ranks. Hosts are in the order of their first ranks.
struct Hosts {
  std::vector<std::vector<int>> ranks;  ///< the ranks of each host
  std::vector<int> host_of;             ///< the host of each rank: index in `ranks`

  explicit Hosts(const std::vector<std::string>& names);
};

struct Parts {
  std::unique_ptr<Backend> local;    ///< the ranks of this host, in their order; the first one is the leader
  std::unique_ptr<Backend> leaders;  ///< one rank of each host; null on the others
  std::unique_ptr<Backend> all;
};

class HierarchicalBackend final : public Backend, private plugin::FailureListener {
 public:
  HierarchicalBackend(const GroupPlan& plan, Hosts hosts, Parts parts, std::string key,
                      std::shared_ptr<plugin::FailureChannel> channel);
  ~HierarchicalBackend() override;

  std::string_view name() const override { return "hierarchical"; }

  void run(std::span<const Operation> batch) override;
  void* allocate(const Call& call) override;
  Wire wire() const override;
  void abort(ErrorCode code, const std::string& text) noexcept override;

 private:
  /// The step of the present collective that this rank is in. A rank that waits for its leader, or a leader
  /// that waits for other leaders, is late because of a rank that another rank can name better.
  enum class Phase { on_host, between_hosts, back_on_host };

  struct Failure {
    ErrorCode code;
    std::string text;
  };

  void group_failed(ErrorCode code, const std::string& text) noexcept override;
  bool remember(ErrorCode code, const std::string& text);
  [[noreturn]] void throw_failure();
  void abort_parts(ErrorCode code, const std::string& text) noexcept;
  template <typename Body>
  void guarded(const Body& body);
  void let_others_tell();

  void collective(const Operation& operation);
  void compare_on_host(const Call& call);
  void compare_hosts(const Call& call);
  void require_same(const std::vector<Call>& calls, const std::vector<int>& ranks);
  void broadcast(const Operation& operation);
  void reduce(const Operation& operation);
  void combine_hosts(const Call& call, std::byte* partial, std::size_t count, DataType type, ReduceOp op);
  void fall_back(const Operation& operation);

  void run_part(Backend& part, std::uint64_t& calls, Operation operation, ReduceOp op, int root);
  void run_local(Collective collective, const void* in, void* out, std::size_t count,
                 DataType type = DataType::u8, ReduceOp op = ReduceOp::sum, int root = 0);
  void run_leaders(Collective collective, const void* in, void* out, std::size_t count,
                   DataType type = DataType::u8, ReduceOp op = ReduceOp::sum, int root = 0);

  bool is_leader() const { return parts_.leaders != nullptr; }

  int host_of(int rank) const { return hosts_.host_of[static_cast<std::size_t>(rank)]; }

  const std::vector<int>& own_host() const { return hosts_.ranks[static_cast<std::size_t>(host_of(rank_))]; }

  int place_on_host(int rank) const;

  int rank_;
  std::string name_;
  Hosts hosts_;
  Parts parts_;
  Phase phase_ = Phase::on_host;
  Call current_;
  std::string key_;
  std::shared_ptr<plugin::FailureChannel> channel_;
  std::uint64_t local_calls_ = 0;
  std::uint64_t leader_calls_ = 0;
  std::vector<std::byte> partial_;  ///< partial results; a member, so that its memory is kept
  std::vector<std::byte> packed_;   ///< the leaders' messages; a member, so that its memory is kept

  std::mutex mutex_;  ///< protects the members below
  std::condition_variable told_;
  std::optional<Failure> local_failure_;
  std::optional<Failure> agreed_;
};

/// Makes the backend of one rank; all ranks of the plan call it alike. The hosts are those of `surroundings`:
/// on one host the backend is shared memory alone, with one rank on each host Gloo alone.
std::unique_ptr<Backend> join(const GroupPlan& plan, const plugin::GroupKey& key,
                              const plugin::Surroundings& surroundings, StoreClient& store,
                              const std::shared_ptr<plugin::FailureChannel>& channel);

}  // namespace muster::hierarchical
