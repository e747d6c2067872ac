// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/needed_libraries.hpp"

#include "agent/stacks/core/elf_file.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

namespace muster::agent {
namespace {

struct DynamicEntry {
  std::uint64_t tag;
  std::uint64_t value;
};

static_assert(sizeof(DynamicEntry) == 16);

constexpr std::uint64_t kEnd = 0, kNeeded = 1, kNames = 5;  // DT_NULL, DT_NEEDED, DT_STRTAB
constexpr std::uint64_t kEntriesMax = 4096;

/// Returns the dynamic section up to its end; nothing if there is none.
std::vector<DynamicEntry> dynamic_section(MemoryReader& file, const std::vector<elf::ProgramHeader>& parts) {
  const auto part = std::find_if(parts.begin(), parts.end(),
                                 [](const elf::ProgramHeader& one) { return one.type == elf::kDynamic; });
  if (part == parts.end()) return {};
  auto entries = elf::items_at<DynamicEntry>(
      file, part->offset, std::min(part->bytes_in_file / sizeof(DynamicEntry), kEntriesMax));
  entries.erase(std::find_if(entries.begin(), entries.end(),
                             [](const DynamicEntry& entry) { return entry.tag == kEnd; }),
                entries.end());
  return entries;
}

/// Reads a name up to its final zero; nothing if it is longer than names of files are.
std::optional<std::string> name_at(MemoryReader& file, std::uint64_t table, std::uint64_t place) {
  const std::uint64_t offset = table + place;
  if (offset < table) return std::nullopt;
  std::array<char, kNeededNameMax + 1> bytes{};
  if (file.read(offset, bytes.data(), bytes.size())) {
    const auto end = std::find(bytes.begin(), bytes.end(), '\0');
    return end == bytes.end() ? std::nullopt : std::optional<std::string>(std::in_place, bytes.begin(), end);
  }
  // The file ends soon behind it.
  std::string name;
  while (name.size() <= kNeededNameMax) {
    const auto next = file.value<char>(offset + name.size());
    if (!next) return std::nullopt;
    if (*next == '\0') return name;
    name += *next;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> needed_libraries(MemoryReader& file) {
  const auto header = elf::file_header(file);
  if (!header) return {};
  const auto parts =
      elf::items_at<elf::ProgramHeader>(file, header->program_headers_at, header->program_headers);
  const std::vector<DynamicEntry> entries = dynamic_section(file, parts);
  const auto names = std::find_if(entries.begin(), entries.end(),
                                  [](const DynamicEntry& entry) { return entry.tag == kNames; });
  if (names == entries.end()) return {};
  const auto table = elf::offset_of(parts, names->value);
  if (!table) return {};
  std::vector<std::string> needed;
  for (const DynamicEntry& entry : entries) {
    if (entry.tag != kNeeded || needed.size() >= kNeededMax) continue;
    if (file.expired()) break;
    if (auto name = name_at(file, *table, entry.value)) needed.push_back(std::move(*name));
  }
  return needed;
}

}  // namespace muster::agent
