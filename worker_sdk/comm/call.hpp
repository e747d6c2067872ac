// SPDX-License-Identifier: Apache-2.0
// What a rank calls: the fingerprint that every other rank compares, and the buffers that only it knows.
// Pure.
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

/// Whether the elements are combined, so that the operation matters.
constexpr bool is_reduction(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

/// How a backend that sends messages combines or spreads large buffers (docs/sdk.md has what each costs).
enum class Algorithm : std::uint8_t {
  direct,  ///< each rank combines a slice of all inputs, in rank order, and gives it to all
  ring,    ///< slices go from rank to rank, combined on the way, and once more round complete
  tree,    ///< inputs go up a binomial tree, combined on the way, the result down
};

/// What MUSTER_ALGORITHM calls it.
std::string_view name_of(Algorithm algorithm);
std::optional<Algorithm> algorithm_named(std::string_view name);

/// Whose memory it is.
enum class MemoryKind : std::uint8_t {
  host,    ///< the program can touch it
  device,  ///< of a GPU, which the program on the host cannot touch
};

/// The fingerprint of one call. Plain data that can lie in shared memory and travel as bytes.
struct Call {
  /// Number of the call in its group, from 1. A send or receive has the number of the collective before it:
  /// it is no step that all ranks take.
  std::uint64_t sequence = 0;
  /// Elements that one rank gives (gather, all_gather, reduce, all_reduce, broadcast, send) or gets (scatter,
  /// reduce_scatter, recv), or that go from one rank to one other (all_to_all); the sum over all ranks for
  /// all_gather_v; bytes for allocate.
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
  /// Of the buffers, the same on all ranks; of a call without any, of what it waits for.
  MemoryKind memory = MemoryKind::host;
  /// Of the group, for every call but send and recv: ranks that differ in it would wait for each other.
  Algorithm algorithm = Algorithm::direct;
  /// A call lies in memory shared with others, and goes over the network, as it is.
  std::array<std::uint8_t, 3> unused{};
};

/// Whether two ranks make the same collective call.
bool same_call(const Call& a, const Call& b);

/// "call 7: all_reduce of 1000 x f32 (4.0 kB), sum", and ", on the device" where its memory is,
/// ", MUSTER_ALGORITHM=ring" where that is not the default.
std::string describe(const Call& call);

/// "all_reduce #7 (4.0 kB)".
std::string brief(const Call& call);

/// A call with its buffers. `in` is what this rank gives and `out` what it gets; they are equal, or overlap
/// not at all, except that a rank's own part may lie in its place: all_gather and gather `in` at out + rank *
/// count elements, reduce_scatter and scatter `out` at in + rank * count elements. Plain numbers and
/// addresses: it crosses to the plug-ins as it is (plugin/table.hpp).
struct Operation {
  Call call;
  const void* in = nullptr;
  void* out = nullptr;
  /// all_gather_v only: elements of each rank, one entry a rank. Null otherwise.
  const std::uint64_t* counts = nullptr;
  /// Device backends: the CUDA stream that the call is put on; null waits for the end.
  void* stream = nullptr;
};

/// A call without root, tag and reduction.
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

static_assert(std::is_standard_layout_v<Operation> && std::is_trivially_copyable_v<Operation>);

}  // namespace muster
