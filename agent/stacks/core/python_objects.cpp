// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/python_objects.hpp"

#include "agent/stacks/core/line_table.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <algorithm>
#include <array>

namespace muster::agent {
namespace {

constexpr std::size_t kObjectTypeAt = 8;  // PyObject: ob_refcnt, ob_type
/// Most bytes of one line table, and of all that are kept: module-level code of a huge generated file has
/// some hundred thousand.
constexpr std::size_t kLineTableBytesMax = std::size_t{1} << 20;
constexpr std::size_t kLineTablesBytesMax = std::size_t{8} << 20;

/// How the characters of a text are kept.
struct TextForm {
  unsigned kind = 0;  // bytes a character: 1, 2 or 4
  bool compact = false;
  bool ascii = false;
};

/// Reads the bit field of PyASCIIObject: kind (3 bits), compact, ascii behind `interned`, which is at most 3
/// and has 2 bits, or in some builds of 3.14 a byte or 16 bits of its own. Where it is wide, its upper bits
/// are 0, so the field begins at the first place that holds something.
TextForm text_form(std::uint32_t state) {
  const auto at = [state](unsigned shift) {
    const std::uint32_t bits = state >> shift;
    return TextForm{bits & 7U, (bits >> 3 & 1U) != 0, (bits >> 4 & 1U) != 0};
  };
  constexpr unsigned kNarrow = 2;
  constexpr unsigned kByte = 8;
  constexpr unsigned kWide = 16;
  constexpr std::uint32_t kInternedMost = 3;
  if ((state & 0xffffU) <= kInternedMost) return at(kWide);
  return (state & 0xffU) <= kInternedMost ? at(kByte) : at(kNarrow);
}

void append_utf8(std::string& text, std::uint32_t character) {
  const bool half = character >= 0xd800 && character < 0xe000;
  if (half || character > 0x10ffff) character = 0xfffd;  // of a name that is no text
  const auto tail = [character](unsigned shift) {
    return static_cast<char>(0x80U | (character >> shift & 0x3fU));
  };
  if (character < 0x80) {
    text += static_cast<char>(character);
  } else if (character < 0x800) {
    text += static_cast<char>(0xc0U | character >> 6);
    text += tail(0);
  } else if (character < 0x10000) {
    text += static_cast<char>(0xe0U | character >> 12);
    text += {tail(6), tail(0)};
  } else {
    text += static_cast<char>(0xf0U | character >> 18);
    text += {tail(12), tail(6), tail(0)};
  }
}

std::string utf8_of(std::span<const std::byte> characters, unsigned kind) {
  std::string text;
  for (std::size_t at = 0; at < characters.size(); at += kind) {
    const std::uint32_t character = kind == 1   ? value_at<std::uint8_t>(characters, at)
                                    : kind == 2 ? value_at<std::uint16_t>(characters, at)
                                                : value_at<std::uint32_t>(characters, at);
    append_utf8(text, character);
  }
  return text;
}

}  // namespace

std::optional<std::string> read_python_text(MemoryReader& memory, const PythonLayout& layout,
                                            std::uint64_t address, std::size_t most, KeptEnd kept) {
  std::array<std::byte, 256> head{};
  if (layout.text_size > head.size() || !memory.read(address, head.data(), layout.text_size))
    return std::nullopt;
  const auto length = value_at<std::uint64_t>(head, layout.text_length);
  const TextForm form = text_form(value_at<std::uint32_t>(head, layout.text_state));
  constexpr std::uint64_t kLengthMost = std::uint64_t{1} << 30;
  if (!form.compact || length > kLengthMost || (form.kind != 1 && form.kind != 2 && form.kind != 4))
    return std::nullopt;
  const std::uint64_t begin = address + (form.ascii ? layout.text_size : layout.wide_text_size);
  const std::size_t count = std::min<std::size_t>(length, most);
  const std::uint64_t left_out = length - count;
  std::vector<std::byte> characters(count * form.kind);
  if (count > 0 && !memory.read(begin + (kept == KeptEnd::last ? left_out * form.kind : 0), characters.data(),
                                characters.size()))
    return std::nullopt;
  const std::string text = for_terminal(utf8_of(characters, form.kind));
  if (left_out == 0) return text;
  return kept == KeptEnd::last ? "..." + text : text + "...";
}

std::optional<Frame> CodeObjects::call(std::uint64_t code, std::uint64_t instruction) {
  auto found = known_.find(code);
  if (found == known_.end()) found = known_.emplace(code, read_code(code)).first;
  if (!found->second) return std::nullopt;
  const Code& known = *found->second;
  std::int64_t at = 0;
  if (layout_.code_instructions == 0) {
    at = static_cast<std::int32_t>(static_cast<std::uint32_t>(instruction));
  } else {
    // A frame that has not begun points to before the first unit of two bytes.
    at = static_cast<std::int64_t>(instruction - code - layout_.code_instructions);
    at = at < 0 ? -1 : at / 2;
  }
  return Frame{known.file, line_of(layout_.version, known.line_table, known.first_line, at), known.function};
}

std::optional<CodeObjects::Code> CodeObjects::read_code(std::uint64_t address) {
  std::array<std::byte, kCodeBytesMax + sizeof(std::uint64_t)> bytes{};
  const std::size_t size =
      std::max({layout_.code_filename, layout_.code_name, layout_.code_line_table, layout_.code_first_line}) +
      sizeof(std::uint64_t);
  if (size > bytes.size() || !memory_.read(address, bytes.data(), size)) return std::nullopt;
  if (type_ != 0 && value_at<std::uint64_t>(bytes, kObjectTypeAt) != type_) return std::nullopt;
  const auto file = read_python_text(memory_, layout_, value_at<std::uint64_t>(bytes, layout_.code_filename),
                                     kFileCharactersMax, KeptEnd::last);
  const auto function = read_python_text(memory_, layout_, value_at<std::uint64_t>(bytes, layout_.code_name),
                                         kFunctionCharactersMax, KeptEnd::first);
  if (!file || !function) return std::nullopt;
  return Code{*file, *function, value_at<std::int32_t>(bytes, layout_.code_first_line),
              read_line_table(value_at<std::uint64_t>(bytes, layout_.code_line_table))};
}

/// Returns nothing where there is none, or too much: the line is not known then.
std::vector<std::byte> CodeObjects::read_line_table(std::uint64_t address) {
  const auto size = memory_.value<std::uint64_t>(address + layout_.bytes_size);
  if (!size || *size > kLineTableBytesMax || bytes_kept_ + *size > kLineTablesBytesMax) return {};
  std::vector<std::byte> table(*size);
  if (!table.empty() && !memory_.read(address + layout_.bytes_data, table.data(), table.size())) return {};
  bytes_kept_ += table.size();
  return table;
}

}  // namespace muster::agent
