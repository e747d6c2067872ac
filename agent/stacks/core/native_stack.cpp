// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/native_stack.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace muster::agent {
namespace {

struct CodeRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::string_view file;
};

constexpr std::array<std::string_view, 7> kRuntimes{"libc.", "libc-",       "libpthread", "libstdc++",
                                                    "ld-",   "libgcc_s.so", "libc++"};

bool is_runtime(std::string_view file) {
  return std::any_of(kRuntimes.begin(), kRuntimes.end(),
                     [file](std::string_view name) { return file.starts_with(name); });
}

/// Reads a line such as "7f00a0021000-7f00a0031000 r-xp 00021000 fd:02 98765   /opt/libx.so"; nullopt if it
/// is not the code of a file.
std::optional<CodeRange> code_range(std::string_view line) {
  const std::size_t dash = line.find('-');
  const std::size_t space = line.find(' ');
  const std::size_t slash = line.rfind('/');
  if (dash == std::string_view::npos || space == std::string_view::npos || slash == std::string_view::npos ||
      dash > space || slash < space || line.substr(space + 1, 4).find('x') == std::string_view::npos)
    return std::nullopt;
  const auto start = parse_number<std::uint64_t>(line.substr(0, dash), 16);
  const auto end = parse_number<std::uint64_t>(line.substr(dash + 1, space - dash - 1), 16);
  if (!start || !end) return std::nullopt;
  return CodeRange{*start, *end, line.substr(slash + 1)};
}

}  // namespace

std::optional<std::uint64_t> stack_pointer(std::string_view syscall) {
  while (!syscall.empty() && (syscall.back() == '\n' || syscall.back() == ' ')) syscall.remove_suffix(1);
  const std::size_t counter = syscall.rfind(' ');
  if (counter == std::string_view::npos) return std::nullopt;
  const std::string_view before = syscall.substr(0, counter);
  const std::size_t pointer = before.rfind(' ');
  constexpr std::string_view kHex = "0x";
  if (pointer == std::string_view::npos || !before.substr(pointer + 1).starts_with(kHex)) return std::nullopt;
  return parse_number<std::uint64_t>(before.substr(pointer + 1 + kHex.size()), 16);
}

std::string innermost_library(std::span<const std::uint64_t> words, std::string_view maps) {
  std::vector<CodeRange> ranges;
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(line.size() + 1, maps.size()));
    if (const auto range = code_range(line)) ranges.push_back(*range);
  }
  for (const std::uint64_t word : words) {
    const auto found = std::find_if(ranges.begin(), ranges.end(), [word](const CodeRange& range) {
      return word >= range.start && word < range.end;
    });
    if (found != ranges.end() && !is_runtime(found->file)) return std::string(found->file);
  }
  return {};
}

}  // namespace muster::agent
