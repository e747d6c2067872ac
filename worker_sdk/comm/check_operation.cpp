// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/process_group.hpp"

#include <limits>
#include <numeric>

namespace muster {
namespace {

[[noreturn]] void refuse(const Call& call, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, std::string(name_of(call.collective)) + ": " + what);
}

std::string range(int size) {
  return "0.." + std::to_string(size - 1);
}

void check_root(const Call& call, int rank, int size) {
  const bool peer = is_point_to_point(call.collective);
  if (call.root < 0 || call.root >= size)
    refuse(call, (peer ? "rank " : "root ") + std::to_string(call.root) + " is outside " + range(size));
  if (peer && call.root == rank) refuse(call, "a rank cannot send to or receive from itself");
}

void check_elements(const Call& call, int size) {
  if (size_of(call.type) == 0) refuse(call, "unknown element type");
  if (is_reduction(call.collective) && !is_defined(call.op, call.type))
    refuse(call, std::string(name_of(call.op)) + " is not defined for " + std::string(name_of(call.type)));
  // Half of the address space for all ranks' parts together, so that no product of these overflows.
  const std::uint64_t limit =
      std::numeric_limits<std::uint64_t>::max() / 2 / size_of(call.type) / static_cast<std::uint64_t>(size);
  if (call.count > limit) refuse(call, "a count of " + std::to_string(call.count) + " is too large");
}

/// Elements that all ranks give together.
std::uint64_t check_counts(const Operation& operation, int size) {
  const Call& call = operation.call;
  if (operation.counts == nullptr)
    refuse(call, "there must be one count for each of the " + std::to_string(size) + " ranks, not 0");
  const std::uint64_t limit = std::numeric_limits<std::uint64_t>::max() / 2 / size_of(call.type);
  std::uint64_t total = 0;
  for (int rank = 0; rank < size; ++rank) {
    const std::uint64_t count = operation.counts[rank];
    if (count > limit - total) refuse(call, "the counts are too large");
    total += count;
  }
  return total;
}

bool gives(const Operation& operation, int rank) {
  const Call& call = operation.call;
  switch (call.collective) {
    case Collective::barrier:
    case Collective::recv:
    case Collective::allocate:
      return false;
    case Collective::broadcast:
    case Collective::scatter:
      return call.root == rank;
    case Collective::all_gather_v:
      return operation.counts[rank] > 0;
    default:
      return true;
  }
}

bool gets(const Operation& operation, int rank) {
  const Call& call = operation.call;
  switch (call.collective) {
    case Collective::barrier:
    case Collective::send:
    case Collective::allocate:
      return false;
    case Collective::reduce:
    case Collective::gather:
      return call.root == rank;
    default:
      return true;
  }
}

struct Range {
  std::uintptr_t begin;
  std::uint64_t bytes;

  bool overlaps(const Range& other) const {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

/// Bytes before `rank`'s part of a gathered buffer.
std::uint64_t bytes_before(const Operation& operation, int rank) {
  const Call& call = operation.call;
  std::uint64_t elements = call.count * static_cast<std::uint64_t>(rank);
  if (call.collective == Collective::all_gather_v) {
    elements = 0;
    for (int before = 0; before < rank; ++before) elements += operation.counts[before];
  }
  return elements * size_of(call.type);
}

/// The rule of Operation: equal, in a rank's own place, or apart. `total`: see check_counts().
void check_overlap(const Operation& operation, int rank, int size, std::uint64_t total) {
  const Call& call = operation.call;
  const std::uint64_t width = size_of(call.type);
  const auto ranks = static_cast<std::uint64_t>(size);
  Range in{reinterpret_cast<std::uintptr_t>(operation.in), call.count * width};
  Range out{reinterpret_cast<std::uintptr_t>(operation.out), call.count * width};
  std::uintptr_t place = out.begin;  // where `in` may lie besides apart
  switch (call.collective) {
    case Collective::all_gather:
    case Collective::gather:
      out.bytes *= ranks;
      place = out.begin + bytes_before(operation, rank);
      break;
    case Collective::all_gather_v:
      in.bytes = operation.counts[rank] * width;
      out.bytes = total * width;
      place = out.begin + bytes_before(operation, rank);
      break;
    case Collective::scatter:
    case Collective::reduce_scatter:
      in.bytes *= ranks;
      place = out.begin - bytes_before(operation, rank);
      break;
    case Collective::all_to_all:
      in.bytes *= ranks;
      out.bytes *= ranks;
      break;
    default:
      break;
  }
  if (in.begin != place && in.overlaps(out))
    refuse(
        call,
        "input and output overlap; they must be the same, lie apart, or a rank's own part be in its place");
}

}  // namespace

void check_operation(const Operation& operation, int rank, int size) {
  const Call& call = operation.call;
  if (call.collective >= Collective::allocate)
    throw Error(ErrorCode::invalid_argument,
                "unknown collective " + std::to_string(static_cast<unsigned>(call.collective)));
  if (call.collective == Collective::barrier) return;
  check_root(call, rank, size);
  check_elements(call, size);
  const bool varies = call.collective == Collective::all_gather_v;
  const std::uint64_t total = varies ? check_counts(operation, size) : call.count;
  if (total == 0) return;
  const bool gives_any = gives(operation, rank);
  const bool gets_any = gets(operation, rank);
  if (gives_any && operation.in == nullptr) refuse(call, "the input buffer is null");
  if (gets_any && operation.out == nullptr) refuse(call, "the output buffer is null");
  if (gives_any && gets_any) check_overlap(operation, rank, size, total);
}

}  // namespace muster
