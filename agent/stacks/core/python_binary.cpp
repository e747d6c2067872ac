// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/python_binary.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace muster::agent {
namespace {

// ELF for 64 bits, as elf(5) gives it.
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

struct SectionHeader {
  std::uint32_t name;
  std::uint32_t type;
  std::uint64_t flags;
  std::uint64_t address;
  std::uint64_t offset;
  std::uint64_t size;
  std::uint32_t link;
  std::uint32_t info;
  std::uint64_t alignment;
  std::uint64_t entry_size;
};

struct Symbol {
  std::uint32_t name;
  unsigned char info;
  unsigned char other;
  std::uint16_t section;
  std::uint64_t value;
  std::uint64_t size;
};

static_assert(sizeof(FileHeader) == 64 && sizeof(ProgramHeader) == 56 && sizeof(SectionHeader) == 64 &&
              sizeof(Symbol) == 24);

constexpr std::uint32_t kLoaded = 1;                         // PT_LOAD
constexpr std::uint32_t kSymbols = 2, kDynamicSymbols = 11;  // SHT_SYMTAB, SHT_DYNSYM
constexpr std::uint16_t kExecutable = 2, kPositionFree = 3;  // ET_EXEC, ET_DYN
constexpr std::size_t kHeadersMax = 256;
constexpr std::uint64_t kSymbolTableBytesMax = 16 << 20;
constexpr std::uint64_t kSymbolNamesBytesMax = 16 << 20;

/// Reads `count` structures from a place in the file; nothing if one of them cannot be read.
template <typename Item>
std::vector<Item> items_at(MemoryReader& file, std::uint64_t offset, std::uint64_t count) {
  std::vector<Item> items(count);
  if (count == 0 || !file.read(offset, items.data(), count * sizeof(Item))) return {};
  return items;
}

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

/// Looks in one table of symbols for those that are wanted.
class SymbolSearch {
 public:
  SymbolSearch(MemoryReader& file, const SectionHeader& table, const SectionHeader& names) {
    if (table.size > kSymbolTableBytesMax || names.size > kSymbolNamesBytesMax) return;
    symbols_ = items_at<Symbol>(file, table.offset, table.size / sizeof(Symbol));
    names_ = items_at<char>(file, names.offset, names.size);
  }

  /// Returns the address of each name, 0 where there is none.
  template <std::size_t kCount>
  std::array<std::uint64_t, kCount> find(const std::array<std::string_view, kCount>& wanted) const {
    std::array<std::uint64_t, kCount> found{};
    for (const Symbol& symbol : symbols_)
      for (std::size_t i = 0; i < kCount; ++i)
        if (found[i] == 0 && symbol.section != 0 && has_name(symbol, wanted[i])) found[i] = symbol.value;
    return found;
  }

 private:
  bool has_name(const Symbol& symbol, std::string_view name) const {
    if (symbol.name >= names_.size() || names_.size() - symbol.name <= name.size()) return false;
    const char* const at = names_.data() + symbol.name;
    return std::string_view(at, name.size()) == name && at[name.size()] == '\0';
  }

  std::vector<Symbol> symbols_;
  std::vector<char> names_;
};

/// Returns the place in the file of what is loaded at an address; nullopt if it is not in the file.
std::optional<std::uint64_t> offset_of(const std::vector<ProgramHeader>& parts, std::uint64_t address) {
  for (const ProgramHeader& part : parts)
    if (part.type == kLoaded && address >= part.address && address - part.address < part.bytes_in_file)
      return part.offset + (address - part.address);
  return std::nullopt;
}

constexpr std::array<std::string_view, 3> kWanted = {"_PyRuntime", "PyCode_Type", "Py_Version"};

}  // namespace

std::vector<std::byte> head_of(MemoryReader& file) {
  const auto header = file_header(file);
  if (!header) return {};
  const std::uint64_t end = header->program_headers_at + header->program_headers * sizeof(ProgramHeader);
  constexpr std::uint64_t kHeadBytesMax = 64 << 10;
  if (end < header->program_headers_at || end > kHeadBytesMax) return {};
  return items_at<std::byte>(file, 0, end);
}

std::optional<PythonBinary> find_python(MemoryReader& file) {
  const auto header = file_header(file);
  if (!header) return std::nullopt;
  const auto parts = items_at<ProgramHeader>(file, header->program_headers_at, header->program_headers);
  const auto first =
      std::find_if(parts.begin(), parts.end(), [](const ProgramHeader& one) { return one.type == kLoaded; });
  if (first == parts.end() || header->section_header_size != sizeof(SectionHeader) ||
      header->section_headers > kHeadersMax)
    return std::nullopt;
  const auto sections = items_at<SectionHeader>(file, header->section_headers_at, header->section_headers);
  PythonBinary found;
  found.first_address = first->address;
  found.first_offset = first->offset;
  for (const std::uint32_t kind : {kDynamicSymbols, kSymbols}) {
    for (const SectionHeader& section : sections) {
      if (file.expired()) return std::nullopt;
      if (section.type != kind || section.link >= sections.size() || found.runtime != 0) continue;
      const auto [runtime, code_type, version] =
          SymbolSearch(file, section, sections[section.link]).find(kWanted);
      found.runtime = runtime;
      found.code_type = code_type;
      const auto offset = version != 0 ? offset_of(parts, version) : std::nullopt;
      if (offset) found.version_hex = file.value<std::uint32_t>(*offset).value_or(0);
    }
  }
  return found.runtime != 0 ? std::optional(found) : std::nullopt;
}

NamedVersion version_of_name(const std::string& path) {
  constexpr std::string_view kName = "python3.";
  const std::size_t slash = path.rfind('/');
  std::string_view name = std::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1);
  const std::size_t at = name.find(kName);
  if (at == std::string_view::npos) return {};
  name.remove_prefix(at + kName.size());
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto digits_end = std::find_if_not(name.begin(), name.end(), is_digit);
  const auto flags_end =
      std::find_if_not(digits_end, name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  const auto minor =
      parse_number<unsigned>(name.substr(0, static_cast<std::size_t>(digits_end - name.begin())));
  if (!minor || *minor > 0xff) return {};
  return {0x03000000U | *minor << 16, std::string(digits_end, flags_end)};
}

}  // namespace muster::agent
