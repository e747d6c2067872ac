// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/elf_file.hpp"

#include <algorithm>
#include <string_view>

namespace muster::agent::elf {
namespace {

constexpr std::uint16_t kExecutable = 2, kPositionFree = 3;  // ET_EXEC, ET_DYN

}  // namespace

std::optional<FileHeader> file_header(MemoryReader& file) {
  const auto header = file.value<FileHeader>(0);
  constexpr std::string_view kMagic =
      "\x7f"
      "ELF\x02\x01\x01";  // 64 bits, the lowest byte first
  if (!header || !std::equal(kMagic.begin(), kMagic.end(), header->magic)) return std::nullopt;
  if (header->type != kExecutable && header->type != kPositionFree) return std::nullopt;
  if (header->program_header_size != sizeof(ProgramHeader)) return std::nullopt;
  if (header->program_headers == 0 || header->program_headers > kHeadersMax) return std::nullopt;
  return header;
}

std::optional<std::uint64_t> offset_of(const std::vector<ProgramHeader>& parts, std::uint64_t address) {
  for (const ProgramHeader& part : parts)
    if (part.type == kLoaded && address >= part.address && address - part.address < part.bytes_in_file)
      return part.offset + (address - part.address);
  return std::nullopt;
}

}  // namespace muster::agent::elf
