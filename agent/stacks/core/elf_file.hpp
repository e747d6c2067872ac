// SPDX-License-Identifier: Apache-2.0
// The tables of an ELF file (elf(5)) of 64 bits, the lowest byte first, which is what hosts of ours have.
// What they say is not to be trusted: whoever follows an offset or a size checks it.
#pragma once

#include "agent/stacks/core/memory_reader.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace muster::agent::elf {

struct FileHeader {
  unsigned char magic[16];
  std::uint16_t type;
  std::uint16_t machine;
  std::uint32_t version;
  std::uint64_t entry;
  std::uint64_t program_headers_at;
  std::uint64_t section_headers_at;
  std::uint32_t flags;
  std::uint16_t size;
  std::uint16_t program_header_size;
  std::uint16_t program_headers;
  std::uint16_t section_header_size;
  std::uint16_t section_headers;
  std::uint16_t names_section;
};

struct ProgramHeader {
  std::uint32_t type;
  std::uint32_t flags;
  std::uint64_t offset;
  std::uint64_t address;
  std::uint64_t physical;
  std::uint64_t bytes_in_file;
  std::uint64_t bytes_in_memory;
  std::uint64_t alignment;
};

static_assert(sizeof(FileHeader) == 64 && sizeof(ProgramHeader) == 56);

inline constexpr std::uint32_t kLoaded = 1, kDynamic = 2;  // PT_LOAD, PT_DYNAMIC
inline constexpr std::uint16_t kHeadersMax = 256;

/// Reads `count` structures from a place in the file; nothing if one of them cannot be read.
template <typename Item>
std::vector<Item> items_at(MemoryReader& file, std::uint64_t offset, std::uint64_t count) {
  std::vector<Item> items(count);
  if (count == 0 || !file.read(offset, items.data(), count * sizeof(Item))) return {};
  return items;
}

/// Reads the header of an executable or a shared library with at most kHeadersMax program headers; nullopt
/// for anything else.
std::optional<FileHeader> file_header(MemoryReader& file);

/// Returns the place in the file of what is loaded at an address; nullopt if it is not in the file.
std::optional<std::uint64_t> offset_of(const std::vector<ProgramHeader>& parts, std::uint64_t address);

}  // namespace muster::agent::elf
