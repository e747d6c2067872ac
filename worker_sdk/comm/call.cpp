// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/call.hpp"

#include <cstdio>
#include <iterator>

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

}  // namespace muster
