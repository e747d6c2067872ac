// SPDX-License-Identifier: Apache-2.0
// Ranks that exchange buffers. The rules of the calls are those of muster/abi/collectives.h.
#pragma once

#include "muster/abi/collectives.h"
#include "muster/abi/group.h"
#include "muster/check.hpp"
#include "muster/elements.hpp"
#include "muster/types.hpp"
#include "muster/work.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace muster {
inline namespace v0 {

/// The calls between the ranks of a group. Each call exists twice: `all_reduce(...)` waits,
/// `start_all_reduce(...)` returns a Work. The number of elements is that of the buffers; where two buffers
/// do not fit each other, Error (invalid_argument) says so and nothing was called. A buffer that the rank
/// neither gives nor gets may be empty: std::span<float>(). An Error other than invalid_argument leaves the
/// group dead.
///
/// A group lives no longer than its World. Calls are made in the same order on every rank, so by one thread
/// at a time; any thread may call abort().
class Group {
 public:
  /// Takes over (`owned`) or looks at a group of the C calls.
  Group(muster_group* handle, bool owned) : handle_(handle), owned_(owned ? handle : nullptr) {
    muster_group_info info = {};
    info.size = sizeof info;
    detail::check(muster_group_get_info(handle, &info));
    rank_ = info.rank;
    size_ = info.group_size;
  }

  int rank() const { return rank_; }

  int size() const { return size_; }

  /// The name of the group in messages: "world", "world/1.0".
  std::string name() const { return info().name; }

  /// The name of the backend: "shm", ...
  std::string backend() const { return info().backend; }

  /// The rank in the world of each rank of the group. Valid as long as the group.
  std::span<const std::int32_t> ranks() const { return {info().ranks, static_cast<std::size_t>(size_)}; }

  /// The bytes that the calls of this rank have moved so far: payload, and what was sent. Any thread.
  muster_traffic traffic() const {
    muster_traffic moved = {};
    moved.size = sizeof moved;
    detail::check(muster_group_get_traffic(handle_, &moved));
    return moved;
  }

  muster_group* handle() const { return handle_; }

  /// Puts the calls that follow on a CUDA stream (nccl). Null: they wait for the device. Default: null.
  void set_stream(void* stream) { stream_ = stream; }

  /// Returns when every rank has called it.
  void barrier() { detail::check(muster_barrier(handle_, stream_, nullptr)); }

  Work start_barrier() {
    return started([&](muster_work** work) { return muster_barrier(handle_, stream_, work); });
  }

  /// Copies `data` from rank `root` to all others.
  template <MutableBuffer R>
  void broadcast(R&& data, int root = 0) {
    detail::check(broadcast_call(data, root, nullptr));
  }

  template <LastingMutableBuffer R>
  Work start_broadcast(R&& data, int root = 0) {
    return started([&](muster_work** work) { return broadcast_call(data, root, work); });
  }

  /// Reduces `data` over all ranks, in place, bit for bit the same on each.
  template <MutableBuffer R>
  void all_reduce(R&& data, ReduceOp op = ReduceOp::sum) {
    detail::check(all_reduce_call(data, data, op, nullptr));
  }

  template <Buffer In, MatchingBuffer<In> Out>
  void all_reduce(In&& in, Out&& out, ReduceOp op = ReduceOp::sum) {
    detail::check(all_reduce_call(in, out, op, nullptr));
  }

  template <LastingMutableBuffer R>
  Work start_all_reduce(R&& data, ReduceOp op = ReduceOp::sum) {
    return started([&](muster_work** work) { return all_reduce_call(data, data, op, work); });
  }

  template <LastingBuffer In, LastingMatch<In> Out>
  Work start_all_reduce(In&& in, Out&& out, ReduceOp op = ReduceOp::sum) {
    return started([&](muster_work** work) { return all_reduce_call(in, out, op, work); });
  }

  /// Reduces `in` over all ranks, into `out` of rank `root`.
  template <Buffer In, MatchingBuffer<In> Out>
  void reduce(In&& in, Out&& out, ReduceOp op = ReduceOp::sum, int root = 0) {
    detail::check(reduce_call(in, out, op, root, nullptr));
  }

  template <LastingBuffer In, LastingMatch<In> Out>
  Work start_reduce(In&& in, Out&& out, ReduceOp op = ReduceOp::sum, int root = 0) {
    return started([&](muster_work** work) { return reduce_call(in, out, op, root, work); });
  }

  /// Copies in[n] of every rank, in rank order, into out[size * n].
  template <Buffer In, MatchingBuffer<In> Out>
  void all_gather(In&& in, Out&& out) {
    detail::check(all_gather_call(in, out, nullptr));
  }

  template <LastingBuffer In, LastingMatch<In> Out>
  Work start_all_gather(In&& in, Out&& out) {
    return started([&](muster_work** work) { return all_gather_call(in, out, work); });
  }

  /// Copies in[counts[rank]] of every rank, one after another, into out[sum of counts].
  template <Buffer In, MatchingBuffer<In> Out>
  void all_gather_v(In&& in, Out&& out, std::span<const std::uint64_t> counts) {
    detail::check(all_gather_v_call(in, out, counts, nullptr));
  }

  template <LastingBuffer In, LastingMatch<In> Out>
  Work start_all_gather_v(In&& in, Out&& out, std::span<const std::uint64_t> counts) {
    return started([&](muster_work** work) { return all_gather_v_call(in, out, counts, work); });
  }

  /// Copies in[n] of every rank, in rank order, into out[size * n] of rank `root`.
  template <Buffer In, MatchingBuffer<In> Out>
  void gather(In&& in, Out&& out, int root = 0) {
    detail::check(gather_call(in, out, root, nullptr));
  }

  template <LastingBuffer In, LastingMatch<In> Out>
  Work start_gather(In&& in, Out&& out, int root = 0) {
    return started([&](muster_work** work) { return gather_call(in, out, root, work); });
  }

  /// Copies from in[size * n] of rank `root` the part of each rank into its out[n].
  template <Buffer In, MatchingBuffer<In> Out>
  void scatter(In&& in, Out&& out, int root = 0) {
    detail::check(scatter_call(in, out, root, nullptr));
  }

  template <LastingBuffer In, LastingMatch<In> Out>
  Work start_scatter(In&& in, Out&& out, int root = 0) {
    return started([&](muster_work** work) { return scatter_call(in, out, root, work); });
  }

  /// Reduces in[size * n] over all ranks, and gives the part of each rank into its out[n].
  template <Buffer In, MatchingBuffer<In> Out>
  void reduce_scatter(In&& in, Out&& out, ReduceOp op = ReduceOp::sum) {
    detail::check(reduce_scatter_call(in, out, op, nullptr));
  }

  template <LastingBuffer In, LastingMatch<In> Out>
  Work start_reduce_scatter(In&& in, Out&& out, ReduceOp op = ReduceOp::sum) {
    return started([&](muster_work** work) { return reduce_scatter_call(in, out, op, work); });
  }

  /// Sends part i of in[size * n] to rank i; part i of out[size * n] comes from rank i.
  template <Buffer In, MatchingBuffer<In> Out>
  void all_to_all(In&& in, Out&& out) {
    detail::check(all_to_all_call(in, out, nullptr));
  }

  template <LastingBuffer In, LastingMatch<In> Out>
  Work start_all_to_all(In&& in, Out&& out) {
    return started([&](muster_work** work) { return all_to_all_call(in, out, work); });
  }

  /// Sends to rank `peer`, which receives as many elements of this type with this tag.
  template <Buffer R>
  void send(R&& data, int peer, int tag = 0) {
    detail::check(send_call(data, peer, tag, nullptr));
  }

  template <LastingBuffer R>
  Work start_send(R&& data, int peer, int tag = 0) {
    return started([&](muster_work** work) { return send_call(data, peer, tag, work); });
  }

  template <MutableBuffer R>
  void recv(R&& data, int peer, int tag = 0) {
    detail::check(recv_call(data, peer, tag, nullptr));
  }

  template <LastingMutableBuffer R>
  Work start_recv(R&& data, int peer, int tag = 0) {
    return started([&](muster_work** work) { return recv_call(data, peer, tag, work); });
  }

  /// Runs the calls that `calls()` makes on this group as one, so that sends and receives cannot wait for one
  /// another. If `calls` throws, the calls are forgotten.
  template <class Calls>
  void batch(Calls&& calls) {
    collect(std::forward<Calls>(calls));
    detail::check(muster_batch_end(handle_, nullptr));
  }

  template <class Calls>
  Work start_batch(Calls&& calls) {
    collect(std::forward<Calls>(calls));
    return started([&](muster_work** work) { return muster_batch_end(handle_, work); });
  }

  /// Gives `count` zeroed elements in which collectives of this group need fewest copies: in memory of the
  /// host, whatever backend() is. All ranks call it alike. The memory lives as long as the group. Throws
  /// Error (unsupported) where the group exchanges memory of GPUs alone: over nccl between hosts without the
  /// plug-in gloo.
  template <Element T>
  std::span<T> allocate(std::size_t count) {
    return allocated<T>(muster_alloc, count);
  }

  /// Does the same as allocate() in memory of the GPU, which the program on the host cannot touch. Throws
  /// Error (unsupported) unless backend() is "nccl".
  template <Element T>
  std::span<T> allocate_device(std::size_t count) {
    return allocated<T>(muster_alloc_device, count);
  }

  /// Makes a group of all ranks that give the same color, ordered by key and then by rank in this group. All
  /// ranks call it. Empty where the color is negative.
  std::optional<Group> split(int color, int key = 0) {
    muster_group* child = nullptr;
    detail::check(muster_group_split(handle_, color, key, &child));
    return taken(child);
  }

  /// Makes a group of `ranks` of this group, in that order. All ranks of this group call it alike; empty on
  /// ranks that are not in it.
  std::optional<Group> new_group(std::span<const std::int32_t> ranks) {
    muster_group* child = nullptr;
    detail::check(muster_group_new(handle_, ranks.data(), static_cast<std::uint32_t>(ranks.size()), &child));
    return taken(child);
  }

  /// Makes the present and every later call of every rank fail with `reason`. Any thread, at any time.
  void abort(const std::string& reason) { detail::check(muster_group_abort(handle_, reason.c_str())); }

 private:
  template <Element T, class Call>
  std::span<T> allocated(Call call, std::size_t count) {
    if (count > SIZE_MAX / sizeof(T))
      throw Error(ErrorCode::invalid_argument,
                  "allocate: " + std::to_string(count) + " elements are too many");
    void* memory = nullptr;
    detail::check(call(handle_, count * sizeof(T), &memory));
    return {static_cast<T*>(memory), count};
  }

  static std::optional<Group> taken(muster_group* child) {
    return child == nullptr ? std::nullopt : std::optional<Group>(std::in_place, child, true);
  }

  muster_group_info info() const {
    muster_group_info info = {};
    info.size = sizeof info;
    detail::check(muster_group_get_info(handle_, &info));
    return info;
  }

  template <class Call>
  Work started(Call&& call) {
    muster_work* work = nullptr;
    detail::check(call(&work));
    return Work(work);
  }

  template <class Calls>
  void collect(Calls&& calls) {
    detail::check(muster_batch_begin(handle_));
    try {
      std::forward<Calls>(calls)();
    } catch (...) {
      static_cast<void>(muster_batch_cancel(handle_));
      throw;
    }
  }

  /// Checks that `larger` holds `times` as many elements as `smaller`, where this rank uses it.
  void fit(const char* call, std::size_t larger, std::size_t smaller, std::size_t times,
           bool used = true) const {
    if (!used || (larger == smaller * times && (times == 1 || larger / times == smaller))) return;
    throw Error(ErrorCode::invalid_argument, std::string(call) + ": buffers of " + std::to_string(smaller) +
                                                 " and " + std::to_string(larger) +
                                                 " elements do not fit each other; the second needs " +
                                                 std::to_string(times) + " times as many as the first");
  }

  std::size_t ranks_count() const { return static_cast<std::size_t>(size_); }

  template <class R>
  muster_rc broadcast_call(R& data, int root, muster_work** work) {
    return muster_broadcast(handle_, std::ranges::data(data), std::ranges::size(data), detail::dtype_of<R>(),
                            root, stream_, work);
  }

  template <class In, class Out>
  muster_rc all_reduce_call(In& in, Out& out, ReduceOp op, muster_work** work) {
    fit("all_reduce", std::ranges::size(out), std::ranges::size(in), 1);
    return muster_all_reduce(handle_, std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
                             detail::dtype_of<In>(), static_cast<muster_op>(op), stream_, work);
  }

  template <class In, class Out>
  muster_rc reduce_call(In& in, Out& out, ReduceOp op, int root, muster_work** work) {
    fit("reduce", std::ranges::size(out), std::ranges::size(in), 1, root == rank_);
    return muster_reduce(handle_, std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
                         detail::dtype_of<In>(), static_cast<muster_op>(op), root, stream_, work);
  }

  template <class In, class Out>
  muster_rc all_gather_call(In& in, Out& out, muster_work** work) {
    fit("all_gather", std::ranges::size(out), std::ranges::size(in), ranks_count());
    return muster_all_gather(handle_, std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
                             detail::dtype_of<In>(), stream_, work);
  }

  template <class In, class Out>
  muster_rc all_gather_v_call(In& in, Out& out, std::span<const std::uint64_t> counts, muster_work** work) {
    std::size_t total = 0;
    for (const std::uint64_t count : counts) total += static_cast<std::size_t>(count);
    fit("all_gather_v (number of counts)", counts.size(), ranks_count(), 1);
    fit("all_gather_v (input)", std::ranges::size(in),
        static_cast<std::size_t>(counts[static_cast<std::size_t>(rank_)]), 1);
    fit("all_gather_v (output)", std::ranges::size(out), total, 1);
    return muster_all_gather_v(handle_, std::ranges::data(in), std::ranges::data(out), counts.data(),
                               detail::dtype_of<In>(), stream_, work);
  }

  template <class In, class Out>
  muster_rc gather_call(In& in, Out& out, int root, muster_work** work) {
    fit("gather", std::ranges::size(out), std::ranges::size(in), ranks_count(), root == rank_);
    return muster_gather(handle_, std::ranges::data(in), std::ranges::data(out), std::ranges::size(in),
                         detail::dtype_of<In>(), root, stream_, work);
  }

  template <class In, class Out>
  muster_rc scatter_call(In& in, Out& out, int root, muster_work** work) {
    fit("scatter", std::ranges::size(in), std::ranges::size(out), ranks_count(), root == rank_);
    return muster_scatter(handle_, std::ranges::data(in), std::ranges::data(out), std::ranges::size(out),
                          detail::dtype_of<In>(), root, stream_, work);
  }

  template <class In, class Out>
  muster_rc reduce_scatter_call(In& in, Out& out, ReduceOp op, muster_work** work) {
    fit("reduce_scatter", std::ranges::size(in), std::ranges::size(out), ranks_count());
    return muster_reduce_scatter(handle_, std::ranges::data(in), std::ranges::data(out),
                                 std::ranges::size(out), detail::dtype_of<In>(), static_cast<muster_op>(op),
                                 stream_, work);
  }

  template <class In, class Out>
  muster_rc all_to_all_call(In& in, Out& out, muster_work** work) {
    const std::size_t part = std::ranges::size(in) / ranks_count();
    fit("all_to_all (input)", std::ranges::size(in), part, ranks_count());
    fit("all_to_all (output)", std::ranges::size(out), part, ranks_count());
    return muster_all_to_all(handle_, std::ranges::data(in), std::ranges::data(out), part,
                             detail::dtype_of<In>(), stream_, work);
  }

  template <class R>
  muster_rc send_call(R& data, int peer, int tag, muster_work** work) {
    return muster_send(handle_, std::ranges::data(data), std::ranges::size(data), detail::dtype_of<R>(), peer,
                       tag, stream_, work);
  }

  template <class R>
  muster_rc recv_call(R& data, int peer, int tag, muster_work** work) {
    return muster_recv(handle_, std::ranges::data(data), std::ranges::size(data), detail::dtype_of<R>(), peer,
                       tag, stream_, work);
  }

  muster_group* handle_;
  detail::Owned<muster_group, muster_group_free> owned_;
  int rank_ = 0;
  int size_ = 1;
  void* stream_ = nullptr;
};

}  // namespace v0
}  // namespace muster
