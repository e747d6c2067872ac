// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/native_stack.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

namespace muster::agent {
namespace {

struct CodeRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::string_view file;
};

/// Of C and C++, and what is put in the place of their functions: allocators and sanitizers.
constexpr std::array<std::string_view, 12> kRuntimes{
    "libc.",  "libc-",       "libpthread",  "libstdc++",   "ld-",     "libgcc_s.so",
    "libc++", "libjemalloc", "libtcmalloc", "libmimalloc", "libasan", "libtsan"};

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

#if defined(__x86_64__)
/// The bytes of a call through a register or memory, by what follows its opcode: the byte ModRM, and the
/// byte SIB where ModRM says that there is one.
std::size_t size_of_indirect_call(unsigned modrm, unsigned sib) {
  constexpr unsigned kRegister = 3, kHasSib = 4, kNoBase = 5;
  const unsigned mode = modrm >> 6, operand = modrm & 7;
  std::size_t size = 2;
  if (mode == kRegister) return size;
  const bool has_sib = operand == kHasSib;
  if (has_sib) ++size;
  if (mode == 1) return size + 1;
  const bool far = mode == 2 || (has_sib ? sib & 7 : operand) == kNoBase;
  return far ? size + 4 : size;
}
#endif

}  // namespace

bool ends_in_call([[maybe_unused]] std::span<const std::byte, kCallBytesMax> code) {
#if defined(__x86_64__)
  const auto before = [&code](std::size_t count) {
    return std::to_integer<unsigned>(code[kCallBytesMax - count]);
  };
  if (before(5) == 0xe8) return true;
  for (std::size_t size = 2; size <= kCallBytesMax; ++size) {
    const bool calls = before(size) == 0xff && (before(size - 1) >> 3 & 7) == 2;
    if (calls && size_of_indirect_call(before(size - 1), size > 2 ? before(size - 2) : 0) == size)
      return true;
  }
  return false;
#elif defined(__aarch64__)
  std::uint32_t instruction = 0;
  std::memcpy(&instruction, &code[kCallBytesMax - sizeof instruction], sizeof instruction);
  return instruction >> 26 == 0x25 || (instruction & 0xfffffc1fU) == 0xd63f0000U;
#else
  return true;
#endif
}

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

std::string innermost_library(std::span<const std::uint64_t> words, std::string_view maps,
                              const ReadCode& read) {
  std::vector<CodeRange> ranges;
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(line.size() + 1, maps.size()));
    if (const auto range = code_range(line)) ranges.push_back(*range);
  }
  for (std::uint64_t word : words) {
#if defined(__aarch64__)
    // The bits above an address hold its signature where return addresses are signed (Arm: FEAT_PAuth).
    word &= (std::uint64_t{1} << 48) - 1;
#endif
    const auto found = std::find_if(ranges.begin(), ranges.end(), [word](const CodeRange& range) {
      return word >= range.start && word < range.end;
    });
    if (found == ranges.end() || is_runtime(found->file)) continue;
    std::array<std::byte, kCallBytesMax> code{};
    if (read(word - code.size(), code) && ends_in_call(code)) return std::string(found->file);
  }
  return {};
}

}  // namespace muster::agent
