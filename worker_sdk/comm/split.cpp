// SPDX-License-Identifier: Apache-2.0
// Lets the ranks of a group agree on the groups below it.
#include "rendezvous/base/fnv1a.hpp"
#include "worker_sdk/comm/process_group.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace muster {
namespace {

/// The most bytes of a list in a text; a list that is cut here usually still tells the call.
constexpr std::size_t kTextBytes = 160;

using ListText = std::array<char, kTextBytes>;

/// A hash of the list of new_group(); 0 stands for split(), which has no list.
std::uint64_t hash_of(std::span<const int> ranks) {
  return ranks.empty() ? 0 : fnv1a(ranks.data(), ranks.size_bytes()) | 1U;
}

ListText text_of(std::span<const int> ranks) {
  std::string text = ranks.empty() ? "split()" : "new_group() of " + std::to_string(ranks.size()) + " ranks:";
  for (const int rank : ranks) {
    if (text.size() + 16 >= kTextBytes) {
      text += " ...";
      break;
    }
    text += " " + std::to_string(rank);
  }
  ListText result{};
  std::memcpy(result.data(), text.data(), std::min(text.size(), kTextBytes - 1));
  return result;
}

Operation gather_of(const void* mine, std::size_t bytes, void* all) {
  Operation operation;
  operation.call.collective = Collective::all_gather;
  operation.call.count = bytes;
  operation.in = mine;
  operation.out = all;
  return operation;
}

}  // namespace

/// Fails because the lists differ. All ranks know that rank 0 and `other` differ, so all tell each other
/// their lists.
void ProcessGroup::refuse_lists(std::span<const int> ranks, int other) {
  const ListText mine = text_of(ranks);
  std::vector<ListText> texts(static_cast<std::size_t>(size()));
  const Operation operation = gather_of(mine.data(), mine.size(), texts.data());
  run(operation);
  const auto said = [&texts](int rank) {
    ListText& text = texts[static_cast<std::size_t>(rank)];
    text.back() = '\0';
    return "rank " + std::to_string(rank) + " called " + text.data();
  };
  const Error error(ErrorCode::mismatch,
                    "the ranks of the group '" + name() + "' do not agree on the group to make: " + said(0) +
                        ", " + said(other) +
                        "; call the same function on all ranks, with the same list in the same order");
  fail(operation.call, error);
  throw error;
}

/// Makes a new group. `ranks` is the list of new_group(); empty for split().
std::unique_ptr<ProcessGroup> ProcessGroup::make_child(int color, int key, std::span<const int> ranks) {
  if (!factory_) throw Error(ErrorCode::unsupported, "the group '" + name() + "' cannot be split");

  struct Choice {
    std::int32_t color;
    std::int32_t key;
    std::uint64_t list;
  };

  std::vector<Choice> choices(static_cast<std::size_t>(size()));
  const Choice mine{color, key, hash_of(ranks)};
  run(gather_of(&mine, sizeof(mine), choices.data()));
  const auto other = std::find_if(choices.begin(), choices.end(), [&choices](const Choice& choice) {
    return choice.list != choices.front().list;
  });
  if (other != choices.end()) refuse_lists(ranks, static_cast<int>(other - choices.begin()));
  const std::uint64_t child = ++children_;
  if (color < 0) return nullptr;
  std::vector<int> members;
  for (int peer = 0; peer < size(); ++peer)
    if (choices[static_cast<std::size_t>(peer)].color == color) members.push_back(peer);
  std::stable_sort(members.begin(), members.end(), [&choices](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });
  GroupPlan plan;
  plan.options = plan_.options;
  // The ranks of the new group have met already, so making it may take as long as any other call.
  plan.options.join_timeout = std::chrono::milliseconds(0);
  plan.options.name += "/" + std::to_string(child) + "." + std::to_string(color);
  plan.size = static_cast<int>(members.size());
  for (int position = 0; position < plan.size; ++position) {
    const auto peer = static_cast<std::size_t>(members[static_cast<std::size_t>(position)]);
    if (static_cast<int>(peer) == rank()) plan.rank = position;
    plan.members.push_back(plan_.members.empty() ? static_cast<int>(peer) : plan_.members[peer]);
  }
  auto backend = factory_->make(plan);
  return std::make_unique<ProcessGroup>(std::move(backend), std::move(plan), factory_);
}

std::unique_ptr<ProcessGroup> ProcessGroup::split(int color, int key) {
  return make_child(color, key, {});
}

std::unique_ptr<ProcessGroup> ProcessGroup::new_group(std::span<const int> ranks) {
  int position = -1;
  std::vector<bool> used(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int peer = ranks[i];
    if (peer < 0 || peer >= size() || used[static_cast<std::size_t>(peer)])
      throw Error(ErrorCode::invalid_argument,
                  "new_group: rank " + std::to_string(peer) +
                      (peer < 0 || peer >= size() ? " is outside 0.." : " twice; 0..") +
                      std::to_string(size() - 1) + " are possible, each once");
    used[static_cast<std::size_t>(peer)] = true;
    if (peer == rank()) position = static_cast<int>(i);
  }
  if (ranks.empty()) throw Error(ErrorCode::invalid_argument, "new_group: no ranks");
  return make_child(position < 0 ? -1 : 0, position, ranks);
}

}  // namespace muster
