// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/python_binary.hpp"

#include "agent/stacks/core/elf_file.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace muster::agent {
namespace {

using elf::file_header;
using elf::items_at;
using elf::ProgramHeader;

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

static_assert(sizeof(SectionHeader) == 64 && sizeof(Symbol) == 24);

constexpr std::uint32_t kSymbols = 2, kDynamicSymbols = 11;  // SHT_SYMTAB, SHT_DYNSYM
constexpr std::uint64_t kSymbolTableBytesMax = 16 << 20;
constexpr std::uint64_t kSymbolNamesBytesMax = 16 << 20;

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
  const auto first = std::find_if(parts.begin(), parts.end(),
                                  [](const ProgramHeader& one) { return one.type == elf::kLoaded; });
  if (first == parts.end() || header->section_header_size != sizeof(SectionHeader) ||
      header->section_headers > elf::kHeadersMax)
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
      const auto offset = version != 0 ? elf::offset_of(parts, version) : std::nullopt;
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
