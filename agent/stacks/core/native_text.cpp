// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/native_text.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace muster::agent {
namespace {

/// What makes frames the same call. Threads that run are at another place of a function each time.
using FrameKey = std::tuple<std::string, std::string, std::uint64_t>;
using StackKey = std::pair<bool, std::vector<FrameKey>>;

/// Threads that are in the same calls.
struct FoldedThreads {
  std::set<int> ranks;
  std::set<std::string> names;
  std::size_t count = 0;
  const NativeThread* first = nullptr;
};

StackKey key_of(const NativeThread& thread, bool is_main) {
  StackKey key{!is_main, {}};
  for (const NativeFrame& frame : thread.frames)
    key.second.emplace_back(frame.module, frame.function, frame.function.empty() ? frame.offset : 0);
  return key;
}

std::string of_ranks(const std::set<int>& ranks) {
  constexpr std::size_t kRangesShown = 8;
  return (ranks.size() == 1 ? "rank " : "ranks ") + rank_list({ranks.begin(), ranks.end()}, kRangesShown);
}

std::string heading(const FoldedThreads& folded, bool is_main) {
  std::string text = of_ranks(folded.ranks) + ", ";
  if (is_main)
    text += "main thread";
  else
    text += folded.count == 1 ? "another thread" : std::to_string(folded.count) + " other threads";
  if (folded.names.size() == 1) text += " (" + for_terminal(*folded.names.begin()) + ")";
  return text + ", machine code:";
}

std::string hex(std::uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

/// About the bytes of a text in JSON, which is ASCII there.
std::size_t json_bytes_of(const std::string& text) {
  std::size_t bytes = 0;
  for (const char c : text) {
    constexpr std::size_t kEscaped = 6;  // \u00e9
    const bool plain = c >= ' ' && c <= '~';
    bytes += !plain ? kEscaped : c == '"' || c == '\\' ? 2 : 1;
  }
  return bytes;
}

std::size_t json_bytes_of(const NativeFrame& frame) {
  constexpr std::size_t kKeysAndNumbers = 96;
  return kKeysAndNumbers + json_bytes_of(frame.function) + json_bytes_of(frame.file) +
         json_bytes_of(frame.module);
}

/// Says of each group of ranks, and of threads, why there are no stacks.
std::vector<std::string> reason_lines(const std::vector<RankPicture>& pictures) {
  std::map<std::string, std::set<int>> ranks;
  for (const RankPicture& one : pictures) {
    if (!one.picture->native) continue;
    const NativeStacks& native = *one.picture->native;
    const std::string name = for_terminal(one.picture->name.empty() ? "?" : one.picture->name);
    if (!native.error.empty())
      ranks[(native.threads.empty() ? "no stacks of the machine code of " + name
                                    : "not all stacks of the machine code of " + name) +
            ": " + for_terminal(native.error)]
          .insert(one.rank);
    for (const NativeThread& thread : native.threads)
      if (!thread.error.empty())
        ranks["no stack of the thread " + for_terminal(thread.name) + " of " + name + ": " +
              for_terminal(thread.error)]
            .insert(one.rank);
  }
  std::vector<std::pair<std::set<int>, std::string>> ordered;
  for (const auto& [text, of] : ranks) ordered.emplace_back(of, text);
  std::sort(ordered.begin(), ordered.end());
  std::vector<std::string> lines;
  for (const auto& [of, text] : ordered) lines.push_back(of_ranks(of) + ": " + text);
  return lines;
}

}  // namespace

std::string describe(const NativeFrame& frame, std::size_t number) {
  std::string text = "#" + std::to_string(number) + (number < 10 ? "  " : " ");
  text += frame.function.empty() ? "?" : for_terminal(frame.function);
  text += " (" + (frame.module.empty() ? "" : for_terminal(frame.module) + "+") + hex(frame.offset) + ")";
  if (!frame.file.empty())
    text += " at " + for_terminal(frame.file) + (frame.line > 0 ? ":" + std::to_string(frame.line) : "");
  return text;
}

std::vector<std::string> native_lines(const std::vector<RankPicture>& pictures, std::size_t most) {
  std::map<StackKey, FoldedThreads> folded;
  std::int64_t longest_stop_us = 0;
  bool asked = false;
  for (const RankPicture& one : pictures) {
    if (!one.picture->native) continue;
    asked = true;
    longest_stop_us = std::max(longest_stop_us, one.picture->native->longest_stop_us);
    for (const NativeThread& thread : one.picture->native->threads) {
      if (thread.frames.empty()) continue;
      FoldedThreads& same = folded[key_of(thread, thread.tid == one.picture->stacks.pid)];
      same.ranks.insert(one.rank);
      same.names.insert(thread.name);
      ++same.count;
      if (same.first == nullptr) same.first = &thread;
    }
  }
  if (!asked) return {};
  char stopped[48] = "none was stopped this time";
  if (longest_stop_us > 0)
    std::snprintf(stopped, sizeof stopped, "%.2f ms at most this time",
                  static_cast<double>(longest_stop_us) / 1000);
  std::vector<std::string> lines{
      std::string("--native stops each thread while its registers and stack are copied: ") + stopped};
  // By the kind of thread, then the first rank.
  std::vector<std::pair<bool, const FoldedThreads*>> ordered;
  for (const auto& [key, same] : folded) ordered.emplace_back(key.first, &same);
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.first, *a.second->ranks.begin()) < std::tuple(b.first, *b.second->ranks.begin());
  });
  for (std::size_t i = 0; i < std::min(most, ordered.size()); ++i) {
    const NativeThread& thread = *ordered[i].second->first;
    lines.push_back(heading(*ordered[i].second, !ordered[i].first));
    for (std::size_t number = 0; number < thread.frames.size(); ++number)
      lines.push_back("  " + describe(thread.frames[number], number));
    if (thread.truncated) lines.emplace_back("  ...");
  }
  if (ordered.size() > most)
    lines.push_back("and " + std::to_string(ordered.size() - most) + " more stacks of machine code");
  for (std::string& line : reason_lines(pictures)) lines.push_back(std::move(line));
  return lines;
}

NativeStacks within(NativeStacks stacks, std::size_t bytes) {
  constexpr std::size_t kThreadKeys = 96;
  std::size_t left = bytes;
  std::size_t kept = 0;
  for (NativeThread& thread : stacks.threads) {
    const std::size_t own = kThreadKeys + json_bytes_of(thread.name) + json_bytes_of(thread.error);
    if (own > left) break;
    left -= own;
    ++kept;
    std::size_t frames = 0;
    while (frames < thread.frames.size() && json_bytes_of(thread.frames[frames]) <= left)
      left -= json_bytes_of(thread.frames[frames++]);
    thread.truncated = thread.truncated || frames < thread.frames.size();
    thread.frames.resize(frames);
  }
  if (kept < stacks.threads.size() && stacks.error.empty())
    stacks.error =
        "the stacks of " + std::to_string(stacks.threads.size() - kept) + " more threads are left out";
  stacks.threads.resize(kept);
  return stacks;
}

}  // namespace muster::agent
