// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/core/console_files.hpp"

#include "rendezvous/base/text.hpp"

namespace muster::launcher {
namespace {

constexpr std::string_view kBegin = "console.";
constexpr std::string_view kEnding = ".log";

}  // namespace

std::string console_file_name(std::uint64_t number) {
  return std::string(kBegin) + std::to_string(number) + std::string(kEnding);
}

std::optional<std::uint64_t> console_file_number(std::string_view name) {
  if (!name.starts_with(kBegin) || !name.ends_with(kEnding) || name.size() <= kBegin.size() + kEnding.size())
    return std::nullopt;
  name.remove_prefix(kBegin.size());
  name.remove_suffix(kEnding.size());
  const auto number = parse_number<std::uint64_t>(name);
  return number && *number > 0 &&
                 console_file_name(*number).size() == kBegin.size() + name.size() + kEnding.size()
             ? number
             : std::nullopt;
}

bool begins_next_file(std::uint64_t size, std::size_t more) {
  return size > 0 && size + more > kConsoleFileBytes;
}

bool may_grow(std::uint64_t size, std::size_t more) {
  return size + more <= kConsoleFileBytes * kConsoleFilesKept;
}

std::optional<std::uint64_t> dropped_file(std::uint64_t number) {
  if (number <= kConsoleFilesKept) return std::nullopt;
  return number - kConsoleFilesKept;
}

}  // namespace muster::launcher
