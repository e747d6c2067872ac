// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/folded_stacks.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace muster::agent {
namespace {

/// Most callers that a line names.
constexpr std::size_t kCallersNamed = 3;

/// Returns where a path goes on behind Python's own folders and those of packages; npos if it is in neither.
std::size_t behind_library_folder(std::string_view file) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"})
    if (const std::size_t at = file.rfind(folder); at != std::string_view::npos) return at + folder.size();
  // lib/python3.11/threading.py, lib64/python3.9/..., lib/python311.zip/...
  constexpr std::string_view kPython = "/python";
  for (std::size_t at = file.find(kPython); at != std::string_view::npos; at = file.find(kPython, at + 1)) {
    const std::string_view before = file.substr(0, at);
    std::string_view version = file.substr(at + kPython.size());
    version = version.substr(0, version.find('/'));
    const bool numbered = !version.empty() && version.front() >= '0' && version.front() <= '9';
    const bool in_lib = before.ends_with("/lib") || before.ends_with("/lib64") || before == "lib";
    const std::size_t end = at + kPython.size() + version.size();
    if (in_lib && numbered && end < file.size()) return end + 1;
  }
  return std::string_view::npos;
}

/// Returns a library's file without the folders that all have in common.
std::string_view short_library(std::string_view file) {
  const std::size_t at = behind_library_folder(file);
  return at == std::string_view::npos ? file : file.substr(at);
}

std::string_view base_name(std::string_view file) {
  return file.starts_with('<') ? file : file.substr(file.rfind('/') + 1);
}

std::string call_text(std::string_view file, const Frame& frame) {
  const std::string line = frame.line > 0 ? std::to_string(frame.line) : "?";
  return for_terminal(file) + ":" + line + " " + for_terminal(frame.function);
}

/// Names the callers at these places, and says that there are more.
std::string callers_text(const std::vector<Frame>& frames, const std::vector<std::size_t>& callers) {
  std::string text;
  for (std::size_t i = 0; i < std::min(callers.size(), kCallersNamed); ++i)
    text += " <- " + short_call(frames[callers[i]]);
  return callers.size() > kCallersNamed ? text + " <- ..." : text;
}

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t kRangesNamed = 8;
  return (ranks.size() == 1 ? "rank " : "ranks ") + rank_list(ranks, kRangesNamed);
}

bool is_remarkable(const std::string& state) {
  return state.starts_with("stopped") || state.starts_with("in the kernel");
}

std::string stack_line(const FoldedStack& stack) {
  std::string text = ranks_text(stack.ranks);
  if (!stack.is_main) text += stack.threads > stack.ranks.size() ? ", other threads" : ", another thread";
  text += ": " + describe_calls(stack.frames);
  if (stack.holds_gil) text += " [holds the GIL]";
  if (stack.approximate) text += " [moving]";
  return text;
}

/// Says of each group of ranks why there are no stacks, and of those that the kernel keeps or stopped what
/// they are in.
std::vector<std::string> state_lines(const std::vector<RankPicture>& pictures) {
  std::map<std::string, std::vector<int>> ranks;
  for (const RankPicture& one : pictures) {
    const ProcessPicture& picture = *one.picture;
    const ProcessStacks& stacks = picture.stacks;
    const bool readable = std::any_of(stacks.threads.begin(), stacks.threads.end(),
                                      [](const ThreadStack& thread) { return !thread.frames.empty(); });
    if (readable && stacks.error.empty() && !is_remarkable(picture.state)) continue;
    std::string text = for_terminal(picture.name.empty() ? "?" : picture.name) + " is " +
                       for_terminal(picture.state.empty() ? "in an unknown state" : picture.state);
    if (!stacks.error.empty())
      text += std::string(readable ? "; not all of its stacks: " : "; no Python stacks: ") +
              for_terminal(stacks.error);
    ranks[text].push_back(one.rank);
  }
  std::vector<std::pair<std::vector<int>, std::string>> ordered;
  for (auto& [text, of] : ranks) ordered.emplace_back(std::move(of), text);
  std::sort(ordered.begin(), ordered.end());
  std::vector<std::string> lines;
  for (const auto& [of, text] : ordered) {
    const std::set<int> once(of.begin(), of.end());
    lines.push_back(ranks_text({once.begin(), once.end()}) + ": " + text);
  }
  return lines;
}

/// About the bytes of a frame, and of a thread without frames, in JSON.
std::size_t json_bytes(const Frame& frame) {
  constexpr std::size_t kKeys = 48;
  const auto escaped = [](const std::string& text) {
    return text.size() + static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
             return c == '\\' || c == '"' || c == '\t';
           }));
  };
  return kKeys + escaped(frame.file) + escaped(frame.function);
}

constexpr std::size_t kThreadJsonBytes = 128;

/// Returns the order in which threads get their share: main, the lock's holders, those with frames, others.
std::vector<std::size_t> by_weight(const std::vector<ThreadStack>& threads) {
  std::vector<std::size_t> order(threads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto weight = [&threads](std::size_t i) {
    const ThreadStack& thread = threads[i];
    return std::tuple(!thread.is_main, !thread.holds_gil, thread.frames.empty());
  };
  std::stable_sort(order.begin(), order.end(),
                   [&weight](std::size_t a, std::size_t b) { return weight(a) < weight(b); });
  return order;
}

}  // namespace

bool is_library_file(std::string_view file) {
  if (file.starts_with('<')) return file != "<string>" && file != "<stdin>" && !file.starts_with("<ipython");
  return behind_library_folder(file) != std::string_view::npos;
}

std::string short_call(const Frame& frame) {
  return call_text(is_library_file(frame.file) ? short_library(frame.file) : base_name(frame.file), frame);
}

std::size_t own_frame(const std::vector<Frame>& frames) {
  const auto own = std::find_if_not(frames.begin(), frames.end(),
                                    [](const Frame& frame) { return is_library_file(frame.file); });
  return static_cast<std::size_t>(own - frames.begin());
}

std::string describe_calls(const std::vector<Frame>& frames) {
  if (frames.empty()) return {};
  const std::size_t own = own_frame(frames);
  std::vector<std::size_t> callers;
  if (own == frames.size()) {
    for (std::size_t i = 1; i < frames.size(); ++i) callers.push_back(i);
    return short_call(frames.front()) + callers_text(frames, callers);
  }
  std::string text = call_text(frames[own].file, frames[own]);
  if (own > 0) text += " (in " + short_call(frames.front()) + ")";
  for (std::size_t i = own + 1; i < frames.size(); ++i)
    if (!is_library_file(frames[i].file)) callers.push_back(i);
  return text + callers_text(frames, callers);
}

std::vector<FoldedStack> fold_stacks(const std::vector<RankPicture>& pictures) {
  std::vector<FoldedStack> folded;
  const auto less = [](const Frame& a, const Frame& b) {
    return std::tie(a.file, a.line, a.function) < std::tie(b.file, b.line, b.function);
  };
  const auto key_less = [&less](const ThreadStack* a, const ThreadStack* b) {
    if (a->is_main != b->is_main) return a->is_main;
    return std::lexicographical_compare(a->frames.begin(), a->frames.end(), b->frames.begin(),
                                        b->frames.end(), less);
  };
  std::map<const ThreadStack*, std::size_t, decltype(key_less)> places(key_less);
  for (const RankPicture& one : pictures) {
    for (const ThreadStack& thread : one.picture->stacks.threads) {
      if (thread.frames.empty()) continue;
      const auto [place, fresh] = places.emplace(&thread, folded.size());
      if (fresh) folded.push_back({{}, 0, thread.is_main, true, false, thread.frames, thread.truncated});
      FoldedStack& stack = folded[place->second];
      ++stack.threads;
      stack.ranks.push_back(one.rank);
      stack.holds_gil = stack.holds_gil && thread.holds_gil;
      stack.approximate = stack.approximate || thread.approximate;
    }
  }
  for (FoldedStack& stack : folded) {
    std::sort(stack.ranks.begin(), stack.ranks.end());
    stack.ranks.erase(std::unique(stack.ranks.begin(), stack.ranks.end()), stack.ranks.end());
  }
  std::stable_sort(folded.begin(), folded.end(), [](const FoldedStack& a, const FoldedStack& b) {
    return std::tuple(!a.is_main, !a.holds_gil, a.ranks.front()) <
           std::tuple(!b.is_main, !b.holds_gil, b.ranks.front());
  });
  return folded;
}

std::vector<std::string> stack_lines(const std::vector<RankPicture>& pictures, std::size_t most) {
  const std::vector<FoldedStack> folded = fold_stacks(pictures);
  const auto first_other =
      std::find_if(folded.begin(), folded.end(), [](const FoldedStack& stack) { return !stack.is_main; });
  std::vector<std::string> lines;
  for (auto stack = folded.begin(); stack != first_other; ++stack) lines.push_back(stack_line(*stack));
  for (std::string& line : state_lines(pictures)) lines.push_back(std::move(line));
  for (auto stack = first_other; stack != folded.end(); ++stack) lines.push_back(stack_line(*stack));
  if (lines.size() <= most || most == 0) return lines;
  const std::size_t left_out = lines.size() - (most - 1);
  lines.resize(most - 1);
  lines.push_back("and " + std::to_string(left_out) + " more");
  return lines;
}

ProcessPicture within(ProcessPicture picture, std::size_t bytes) {
  std::vector<ThreadStack>& threads = picture.stacks.threads;
  std::size_t left = bytes;
  std::vector<bool> kept(threads.size(), false);
  for (const std::size_t i : by_weight(threads)) {
    if (left < kThreadJsonBytes) break;
    left -= kThreadJsonBytes;
    kept[i] = true;
    std::vector<Frame>& frames = threads[i].frames;
    std::size_t count = 0;
    while (count < frames.size() && json_bytes(frames[count]) <= left) left -= json_bytes(frames[count++]);
    threads[i].truncated = threads[i].truncated || count < frames.size();
    frames.resize(count);
  }
  std::vector<ThreadStack> remaining;
  for (std::size_t i = 0; i < threads.size(); ++i)
    if (kept[i]) remaining.push_back(std::move(threads[i]));
  if (remaining.size() < threads.size() && picture.stacks.error.empty())
    picture.stacks.error =
        "the stacks of " + std::to_string(threads.size() - remaining.size()) + " more threads are left out";
  threads = std::move(remaining);
  return picture;
}

}  // namespace muster::agent
