// SPDX-License-Identifier: Apache-2.0
// One group of ranks on one communicator, with the thread that watches it. The calling thread only puts work
// on streams; the watchdog compares fingerprints, keeps the deadline, and revokes the communicator when the
// group fails.
#pragma once

#include "worker_sdk/comm/nccl/batch.hpp"
#include "worker_sdk/comm/nccl/board.hpp"
#include "worker_sdk/comm/nccl/calls.hpp"
#include "worker_sdk/comm/nccl/communicator.hpp"
#include "worker_sdk/comm/nccl/device.hpp"
#include "worker_sdk/comm/nccl/join.hpp"
#include "worker_sdk/comm/plugin/plugin_side.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace muster::nccl {

/// One thread at a time may call run(), note() and allocate(); any thread may call the other functions, and
/// use what last_run() gives. All but note() and abort() throw Error.
class Group final : public plugin::Group {
 public:
  Group(const Library& api, const muster_plugin_group_options& options, const plugin::Host& host);
  /// Leaves the group; waits for other ranks as plugin/table.hpp says of destroy().
  ~Group() override;

  void run(std::span<const Operation> batch) override;
  std::unique_ptr<Completion> last_run() override;
  void* allocate(const Call& call) override;

  bool is_host(const void* memory) const override { return device_->is_host(memory); }

  void note(const Call& call) noexcept override { board_.record(call); }

  void launch(const std::function<void()>& work) override;
  void abort(ErrorCode code, const std::string& text) noexcept override;

 private:
  using Clock = std::chrono::steady_clock;

  class LastRun;

  /// A piece of memory from allocate().
  struct Region {
    void* memory = nullptr;
    ncclWindow_t window = nullptr;
    void* handle = nullptr;
  };

  // The following functions make calls (group.cpp).
  void check_failure() const;
  Communicator::Patience patience(const Call& call);
  void run_group(std::vector<Operation> calls);
  Operation prepared(Operation operation, Batch& batch);
  void register_region(Region& region, std::size_t bytes, const Call& call);
  void deregister_regions(const Communicator::Patience& patience);
  bool have_all_left() const;
  Communicator::Patience patience_to_leave();
  [[noreturn]] void refuse(const Call& call, const Error& error);
  /// Fails the group on all ranks, unless it has failed before, and throws its failure.
  [[noreturn]] void fail(const Error& error);
  /// Does the same as fail() without throwing.
  void declare(const Error& error) noexcept;
  bool set_failure(const Error& error) noexcept;
  /// Whether the device is done with a batch, and was before any failure. Throws the failure otherwise.
  bool observe(Batch& batch);
  void check_buffers(const Operation& operation) const;

  // The following functions are the watchdog's (watchdog.cpp).
  void watch() noexcept;
  void look(Clock::time_point now);
  void look_at_calls(Clock::time_point now);
  void look_at_peers(Clock::time_point now, const Call& waiting);
  void look_at_nccl();
  void declare_cause(const Error& error, const Call& waiting);
  void exchange();
  void drop_done();
  std::string missing_from(const Call& call);
  std::string here() const;

  const Library& api_;
  plugin::Host host_;
  std::string name_;
  Place place_;
  std::chrono::milliseconds timeout_;
  std::chrono::milliseconds report_after_;
  std::shared_ptr<Device> device_;
  Communicator communicator_;
  Board board_;
  std::unique_ptr<Peers> peers_;
  std::list<Region> regions_;  ///< a list, because NCCL later writes windows at the address that it was given
  std::shared_ptr<Batch> newest_;  ///< null before the first run()

  mutable std::mutex mutex_;  ///< protects the members that follow
  std::condition_variable wake_;
  std::optional<Error> failure_;
  /// The call that NCCL refused to take, with its error, until the watchdog has looked for the cause.
  std::optional<std::pair<Call, Error>> refused_;
  std::deque<std::shared_ptr<Batch>> pending_;
  bool stop_ = false;
  std::atomic<bool> failed_{false};
  std::atomic<bool> sleeps_long_{false};

  // The following members are used by the watchdog's thread only.
  bool revoked_ = false;
  bool store_works_ = true;
  std::optional<Clock::time_point> gone_at_;  ///< when a peer was first seen to have ended
  Clock::time_point progress_at_{};           ///< when the batch that is now the oldest became the oldest
  std::shared_ptr<Batch> oldest_;
  bool reported_ = false;
  Clock::time_point next_exchange_{};
  std::thread thread_;
};

}  // namespace muster::nccl
