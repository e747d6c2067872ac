// SPDX-License-Identifier: Apache-2.0
// A call of a rank: the fingerprint that every other rank compares, and the buffers that only this rank
// knows. Pure.
#pragma once

#include "muster/types.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace muster {

enum class Collective : std::uint8_t {
  barrier,
  broadcast,
  all_reduce,
  reduce,
  all_gather,
  all_gather_v,
  gather,
  scatter,
  reduce_scatter,
  all_to_all,
  send,
  recv,
  allocate,
};

std::string_view name_of(Collective collective);

constexpr bool is_point_to_point(Collective collective) {
  return collective == Collective::send || collective == Collective::recv;
}

constexpr bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

/// Whether the collective combines elements, so that the operation matters.
constexpr bool is_reduction(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

/// The ways in which a backend that sends messages combines or spreads large buffers (docs/sdk.md has the
/// cost of each).
enum class Algorithm : std::uint8_t {
  direct,  ///< each rank combines a slice of all inputs, in rank order, and gives the result to all
  ring,    ///< slices are combined from rank to rank, and go round once more when complete
  tree,    ///< inputs are combined up a binomial tree, and the result goes down
};

/// The algorithm's name in MUSTER_ALGORITHM.
std::string_view name_of(Algorithm algorithm);
std::optional<Algorithm> algorithm_named(std::string_view name);

/// The kind of memory that a call's buffers lie in.
enum class MemoryKind : std::uint8_t {
  host,    ///< memory that the program can touch
  device,  ///< memory of a GPU, which the program on the host cannot touch
};

/// The fingerprint of one call. Plain data that can lie in shared memory and travel as bytes.
struct Call {
  /// The number of the call in its group, from 1. A send or receive has the number of the collective before
  /// it, because not all ranks take part in it.
  std::uint64_t sequence = 0;
  /// The number of elements that one rank gives (gather, all_gather, reduce, all_reduce, broadcast, send) or
  /// gets (scatter, reduce_scatter, recv), or that go from one rank to one other (all_to_all); the sum over
  /// all ranks for all_gather_v; bytes for allocate.
  std::uint64_t count = 0;
  /// A hash of the counts of all ranks for all_gather_v; 0 otherwise.
  std::uint64_t signature = 0;
  /// The root, or the other rank of a send or receive.
  std::int32_t root = 0;
  /// The tag of a send or receive; 0 for other calls.
  std::int32_t tag = 0;
  Collective collective = Collective::barrier;
  DataType type = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  /// The kind of memory of the buffers, the same on all ranks; for a call without buffers, the kind whose
  /// earlier calls it waits for.
  MemoryKind memory = MemoryKind::host;
  /// The algorithm of the group, for every call but send and recv: ranks with different algorithms would wait
  /// for each other.
  Algorithm algorithm = Algorithm::direct;
  /// The padding has a fixed value, because a call is copied into shared memory and sent over the network
  /// byte by byte.
  std::array<std::uint8_t, 3> unused{};
};

/// Whether two ranks make the same collective call.
bool same_call(const Call& a, const Call& b);

/// The call for people: "call 7: all_reduce of 1000 x f32 (4.0 kB), sum", followed by ", on the device" for
/// memory of a device and by ", MUSTER_ALGORITHM=ring" for an algorithm that is not the default.
std::string describe(const Call& call);

/// The call in few words: "all_reduce #7 (4.0 kB)".
std::string brief(const Call& call);

/// A call with its buffers. `in` is the data that this rank gives and `out` the data that it gets; the two
/// are equal, or do not overlap, except that a rank's own part may lie in its place: all_gather and gather
/// `in` at out + rank * count elements, reduce_scatter and scatter `out` at in + rank * count elements. Plain
/// numbers and addresses, because it is passed to the plug-ins unchanged (plugin/table.hpp).
struct Operation {
  Call call;
  const void* in = nullptr;
  void* out = nullptr;
  /// The number of elements of each rank, one entry per rank, for all_gather_v only; null otherwise.
  const std::uint64_t* counts = nullptr;
  /// The CUDA stream that a device backend puts the call on; null: the call is waited for.
  void* stream = nullptr;
};

/// Makes a call without root, tag and reduction.
inline Operation operation_of(Collective collective, std::uint64_t count, DataType type, const void* in,
                              void* out) {
  Operation operation;
  operation.call.collective = collective;
  operation.call.count = count;
  operation.call.type = type;
  operation.in = in;
  operation.out = out;
  return operation;
}

/// The bytes at `in` and at `out` on a rank of a group of `size`; 0 if the rank does not use the buffer.
std::uint64_t bytes_in(const Operation& operation, int rank, int size);
std::uint64_t bytes_out(const Operation& operation, int rank, int size);

/// Throws Error (invalid_argument) that names what is wrong with `operation` in a group of `size` ranks.
void check_operation(const Operation& operation, int rank, int size);

static_assert(std::is_standard_layout_v<Operation> && std::is_trivially_copyable_v<Operation>);

}  // namespace muster
