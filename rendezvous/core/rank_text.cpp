// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/rank_text.hpp"

#include "rendezvous/base/text.hpp"

#include <cstddef>
#include <utility>

namespace muster::rendezvous {
namespace {

constexpr std::size_t kRangesInText = 8;

/// The call of a rank that waits for others: "all_reduce #12 of group 'dp'".
std::string call_text(const RankHealth& health) {
  if (health.operation.empty()) return "other ranks";
  std::string text = health.operation;
  if (health.sequence > 0) text += " #" + std::to_string(health.sequence);
  if (!health.group.empty()) text += " of group '" + health.group + "'";
  return text;
}

std::string wait_text(const RankHealth& health) {
  const std::string in_call = health.operation.empty() ? "" : " in " + call_text(health);
  switch (health.wait) {
    case WaitKind::communication:
      return call_text(health);
    case WaitKind::store_key:
      return "the store's key '" + health.key + "'" + in_call;
    case WaitKind::lock:
      return health.stirs ? "a lock or an event, with interruptions" : "a lock or an event";
    case WaitKind::terminal:
      return "its user, at a prompt or in a debugger";
    case WaitKind::events:
      return "something to do, in an event loop";
    case WaitKind::file:
      return "a file, a pipe or a socket";
    case WaitKind::helpers:
      return "processes of its own, which stand still";
    case WaitKind::sleep:
    case WaitKind::stopped:
    case WaitKind::unknown:
      break;
  }
  return "something that does not show from outside";
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + rank_list(ranks, kRangesInText);
}

std::string place_text(const CodePlace& place) {
  if (!place.known()) return {};
  const std::size_t slash = place.file.rfind('/');
  std::string text = slash == std::string::npos ? place.file : place.file.substr(slash + 1);
  text += ":" + std::to_string(place.line);
  return place.function.empty() ? text : text + " in " + place.function;
}

std::string deed_text(const RankHealth& health, bool many) {
  if (health.activity == Activity::moves) return many ? "move" : "moves";
  if (health.activity == Activity::ended) return many ? "have ended" : "has ended";
  if (health.activity == Activity::busy)
    return many ? "compute, and nothing else of them moves" : "computes, and nothing else of it moves";
  if (!health.held_in.empty())
    return (many ? "are held by the kernel in " : "is held by the kernel in ") + health.held_in;
  if (health.wait == WaitKind::stopped) return many ? "are stopped by a signal" : "is stopped by a signal";
  if (health.wait == WaitKind::sleep) {
    const std::string how = health.stirs ? " again and again" : "";
    return (many ? "sleep" : "sleeps") + how;
  }
  return (many ? "wait for " : "waits for ") + wait_text(health);
}

std::string deed_text(const RankHealth& health, bool many, std::chrono::steady_clock::duration lasted) {
  const std::string text = deed_text(health, many);
  const bool timeless = health.activity == Activity::moves || health.activity == Activity::ended;
  return timeless ? text : text + " since " + seconds_text(lasted);
}

std::string seconds_text(std::chrono::steady_clock::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace muster::rendezvous
