// SPDX-License-Identifier: Apache-2.0
// The backend over shared memory. All ranks go through the same steps; a step ends for a rank when all others
// have begun the same one. The first step of every call carries its fingerprint, which every rank compares
// with its own, and up to 40 bytes of data in the same cache line. Sends and receives go through rings
// between two ranks (messages.hpp).
#pragma once

#include "worker_sdk/comm/backend.hpp"
#include "worker_sdk/comm/group_plan.hpp"
#include "worker_sdk/comm/shm/layout.hpp"
#include "worker_sdk/comm/shm/messages.hpp"
#include "worker_sdk/comm/shm/regions.hpp"
#include "worker_sdk/comm/shm/waiter.hpp"

#include <memory>
#include <span>
#include <vector>

namespace muster::shm {

class ShmBackend : public Backend {
 public:
  /// `control` is memory of Layout::bytes_for(plan.size) that all ranks see and one of them has constructed.
  /// `memory` opens the memory of later allocate() calls.
  ShmBackend(std::shared_ptr<MemorySource> memory, Mapping control, const GroupPlan& plan);
  ~ShmBackend() override;

  std::string_view name() const override { return "shm"; }

  void run(std::span<const Operation> batch) override;
  void* allocate(const Call& call) override;
  void abort(ErrorCode code, const std::string& text) noexcept override;

 private:
  void run_collective(const Operation& operation);
  /// Runs a small call: one step exchanges the data of all ranks.
  void run_small(const Operation& operation, std::size_t bytes);
  void run_large(const Operation& operation);

  // The following functions move data (collectives.cpp). `share` is bytes of one rank, or of a pair of ranks.
  void take_small(const Operation& operation, std::size_t share);
  void gather_small(const Operation& operation);
  void broadcast_large(const Operation& operation, std::size_t share);
  void all_gather_large(const Operation& operation);
  void scatter_large(const Operation& operation, std::size_t share);
  void all_to_all_large(const Operation& operation, std::size_t share);

  // The following functions combine data (reductions.cpp).
  void reduce_small(const Operation& operation, std::size_t share);
  void reduce_shared(const Operation& operation, std::size_t bytes);
  void reduce_staged(const Operation& operation, std::size_t bytes);
  void deal(const std::byte* in, std::size_t share, std::size_t turn);
  void copy_in(const std::byte* data, std::size_t bytes, std::size_t turn);
  void reduce_own(const Operation& operation, std::size_t begin, std::size_t bytes, std::size_t turn);
  void copy_out(std::byte* data, std::size_t bytes, std::size_t turn);
  void reduce_scatter_large(const Operation& operation, std::size_t share);

  void prepare();
  void enter(const Operation& operation);
  void compare_calls(const Call& call);
  [[noreturn]] void fail_mismatch(const Call& call);
  void step();

  template <typename Fill, typename Drain>
  void pipeline(std::size_t turns, Fill fill, Drain drain);

  Line& line_of(int peer) const { return layout_.line(peer, sequence_); }

  const std::byte* sent_by(int peer) const {
    return in_line_ ? line_of(peer).data : layout_.slot(peer, sequence_);
  }

  const std::byte* shared_in(int peer) const { return regions_.address_of(peer, line_of(peer).places.in); }

  std::byte* shared_out(int peer) const { return regions_.address_of(peer, line_of(peer).places.out); }

  bool all_in_shared() const;
  bool all_out_shared() const;
  bool any_in_place() const;
  std::size_t piece_bytes() const;

  std::shared_ptr<MemorySource> memory_;
  Mapping control_;
  Layout layout_;
  int rank_;
  int size_;
  std::string name_;
  Waiter waiter_;
  Regions regions_;
  Messages messages_;
  std::vector<const std::byte*> sources_;  ///< inputs of a reduction; a member, so that its memory is kept
  std::vector<std::byte*> results_;        ///< outputs of a reduction; a member, so that its memory is kept
  bool in_line_ = false;                   ///< whether the present call's data are in its cache line
  std::uint64_t sequence_ = 0;             ///< number of the collective, for lines and slots
  std::uint32_t step_ = 0;
};

}  // namespace muster::shm
