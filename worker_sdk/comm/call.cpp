// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/call.hpp"

#include "muster/error.hpp"

#include <cstdio>
#include <iterator>
#include <limits>
#include <numeric>

namespace muster {
namespace {

constexpr std::string_view kAlgorithms[] = {"direct", "ring", "tree"};

/// A number of bytes for people: "4.0 kB".
std::string readable_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return std::to_string(bytes) + " B";
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 999.95 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %s", value, kUnits[unit]);
  return text;
}

/// The part of a description that follows the call's name.
std::string details(const Call& call) {
  if (call.collective == Collective::barrier) return "";
  if (call.collective == Collective::allocate) return " of " + std::to_string(call.count) + " bytes";
  std::string text = " of " + std::to_string(call.count) + " x " + std::string(name_of(call.type)) + " (" +
                     readable_bytes(call.count * size_of(call.type)) + ")";
  if (is_reduction(call.collective)) text += ", " + std::string(name_of(call.op));
  if (has_root(call.collective)) text += ", root " + std::to_string(call.root);
  if (call.collective == Collective::send) text += " to rank " + std::to_string(call.root);
  if (call.collective == Collective::recv) text += " from rank " + std::to_string(call.root);
  if (is_point_to_point(call.collective)) text += ", tag " + std::to_string(call.tag);
  return text;
}

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
  // The limit is half of the address space for all ranks' parts together, so that no product of these
  // overflows.
  const std::uint64_t limit =
      std::numeric_limits<std::uint64_t>::max() / 2 / size_of(call.type) / static_cast<std::uint64_t>(size);
  if (call.count > limit) refuse(call, "a count of " + std::to_string(call.count) + " is too large");
}

/// The number of elements that all ranks give together.
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

struct Range {
  std::uintptr_t begin;
  std::uint64_t bytes;

  bool overlaps(const Range& other) const {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

/// The number of bytes before `rank`'s part of a gathered buffer.
std::uint64_t bytes_before(const Operation& operation, int rank) {
  const Call& call = operation.call;
  std::uint64_t elements = call.count * static_cast<std::uint64_t>(rank);
  if (call.collective == Collective::all_gather_v) {
    elements = 0;
    for (int before = 0; before < rank; ++before) elements += operation.counts[before];
  }
  return elements * size_of(call.type);
}

/// Checks the rule of Operation about buffers: they are equal, apart, or one lies in the rank's own place.
void check_overlap(const Operation& operation, int rank, const Range& in, const Range& out) {
  std::uintptr_t place = out.begin;  // the only overlapping place where `in` may begin
  switch (operation.call.collective) {
    case Collective::all_gather:
    case Collective::all_gather_v:
    case Collective::gather:
      place = out.begin + bytes_before(operation, rank);
      break;
    case Collective::scatter:
    case Collective::reduce_scatter:
      place = out.begin - bytes_before(operation, rank);
      break;
    default:
      break;
  }
  if (in.begin != place && in.overlaps(out))
    refuse(
        operation.call,
        "input and output overlap; they must be the same, lie apart, or a rank's own part be in its place");
}

}  // namespace

std::string_view name_of(Collective collective) {
  constexpr std::string_view kNames[] = {
      "barrier", "broadcast",      "all_reduce", "reduce", "all_gather", "all_gather_v", "gather",
      "scatter", "reduce_scatter", "all_to_all", "send",   "recv",       "allocate"};
  const auto index = static_cast<std::size_t>(collective);
  return index < std::size(kNames) ? kNames[index] : "unknown call";
}

std::string_view name_of(Algorithm algorithm) {
  const auto index = static_cast<std::size_t>(algorithm);
  return index < std::size(kAlgorithms) ? kAlgorithms[index] : "unknown algorithm";
}

std::optional<Algorithm> algorithm_named(std::string_view name) {
  for (std::size_t index = 0; index < std::size(kAlgorithms); ++index)
    if (kAlgorithms[index] == name) return static_cast<Algorithm>(index);
  return std::nullopt;
}

bool same_call(const Call& a, const Call& b) {
  return a.sequence == b.sequence && a.count == b.count && a.signature == b.signature && a.root == b.root &&
         a.tag == b.tag && a.collective == b.collective && a.type == b.type && a.op == b.op &&
         a.memory == b.memory && a.algorithm == b.algorithm;
}

std::string describe(const Call& call) {
  return "call " + std::to_string(call.sequence) + ": " + std::string(name_of(call.collective)) +
         details(call) + (call.memory == MemoryKind::device ? ", on the device" : "") +
         (call.algorithm == Algorithm::direct ? ""
                                              : ", MUSTER_ALGORITHM=" + std::string(name_of(call.algorithm)));
}

std::string brief(const Call& call) {
  std::string text = std::string(name_of(call.collective));
  if (!is_point_to_point(call.collective)) text += " #" + std::to_string(call.sequence);
  if (call.collective == Collective::barrier) return text;
  return text + " (" + readable_bytes(call.count * size_of(call.type)) + ")";
}

std::uint64_t bytes_in(const Operation& operation, int rank, int size) {
  const Call& call = operation.call;
  const std::uint64_t part = call.count * size_of(call.type);
  switch (call.collective) {
    case Collective::barrier:
    case Collective::recv:
    case Collective::allocate:
      return 0;
    case Collective::broadcast:
      return rank == call.root ? part : 0;
    case Collective::scatter:
      return rank == call.root ? part * static_cast<std::uint64_t>(size) : 0;
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return part * static_cast<std::uint64_t>(size);
    case Collective::all_gather_v:
      return operation.counts[rank] * size_of(call.type);
    default:
      return part;
  }
}

std::uint64_t bytes_out(const Operation& operation, int rank, int size) {
  const Call& call = operation.call;
  const std::uint64_t part = call.count * size_of(call.type);
  switch (call.collective) {
    case Collective::barrier:
    case Collective::send:
    case Collective::allocate:
      return 0;
    case Collective::reduce:
      return rank == call.root ? part : 0;
    case Collective::gather:
      return rank == call.root ? part * static_cast<std::uint64_t>(size) : 0;
    case Collective::all_gather:
    case Collective::all_to_all:
      return part * static_cast<std::uint64_t>(size);
    case Collective::all_gather_v:
      return std::accumulate(operation.counts, operation.counts + size, std::uint64_t{0}) *
             size_of(call.type);
    default:
      return part;
  }
}

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
  const Range in{reinterpret_cast<std::uintptr_t>(operation.in), bytes_in(operation, rank, size)};
  const Range out{reinterpret_cast<std::uintptr_t>(operation.out), bytes_out(operation, rank, size)};
  if (in.bytes > 0 && operation.in == nullptr) refuse(call, "the input buffer is null");
  if (out.bytes > 0 && operation.out == nullptr) refuse(call, "the output buffer is null");
  if (in.bytes > 0 && out.bytes > 0) check_overlap(operation, rank, in, out);
}

}  // namespace muster
