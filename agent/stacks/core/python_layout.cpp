// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/core/python_layout.hpp"

#include "agent/stacks/core/memory_reader.hpp"
#include "agent/stacks/core/python_offsets.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace muster::agent {
namespace {

constexpr std::string_view kCookie = "xdebugpy";

/// The places of the offsets in _Py_DebugOffsets, counted in its 64-bit fields from the beginning: each group
/// of fields begins with the size of its structure.
struct DebugOffsetsLayout {
  unsigned version;
  unsigned runtime;
  unsigned interpreter;
  /// Fields of the interpreter group behind threads_head that this version has and 3.13 has not.
  unsigned interpreter_extra;
  unsigned thread;
  unsigned frame;
  unsigned code;
  unsigned bytes;
  unsigned text;
};

// 3.14 added threads_main, code_object_generation and tlbc_generation to the interpreter's group,
// stackpointer and tlbc_index to the frame's, co_tlbc to the code's, and a group of four fields for sets.
constexpr DebugOffsetsLayout kDebugOffsetsLayouts[] = {
    {0x030d, 3, 6, 0, 19, 28, 34, 64, 67},
    {0x030e, 3, 6, 1, 22, 31, 39, 74, 77},
};

/// One offset of a layout, and the number of bytes that it and what is read there must stay below.
struct Bound {
  std::uint32_t PythonLayout::*offset;
  std::uint64_t most;
};

constexpr std::uint64_t kStateBytesMax = std::uint64_t{1} << 24;
constexpr std::uint64_t kObjectHeadMax = 256;

constexpr Bound kBounds[] = {
    {&PythonLayout::interpreters_head, kStateBytesMax}, {&PythonLayout::interpreter_next, kStateBytesMax},
    {&PythonLayout::threads_head, kStateBytesMax},      {&PythonLayout::gil, kStateBytesMax},
    {&PythonLayout::gil_holder, kObjectHeadMax},        {&PythonLayout::gil_locked, kObjectHeadMax},
    {&PythonLayout::thread_next, kThreadBytesMax},      {&PythonLayout::thread_interpreter, kThreadBytesMax},
    {&PythonLayout::thread_id, kThreadBytesMax},        {&PythonLayout::thread_native_id, kThreadBytesMax},
    {&PythonLayout::thread_frame, kThreadBytesMax},     {&PythonLayout::thread_chunk, kThreadBytesMax},
    {&PythonLayout::frame_size, kFrameBytesMax},        {&PythonLayout::frame_previous, kFrameBytesMax},
    {&PythonLayout::frame_code, kFrameBytesMax},        {&PythonLayout::frame_instruction, kFrameBytesMax},
    {&PythonLayout::frame_owner, kFrameBytesMax},       {&PythonLayout::code_filename, kCodeBytesMax},
    {&PythonLayout::code_name, kCodeBytesMax},          {&PythonLayout::code_first_line, kCodeBytesMax},
    {&PythonLayout::code_line_table, kCodeBytesMax},    {&PythonLayout::code_instructions, kCodeBytesMax},
    {&PythonLayout::text_length, kObjectHeadMax},       {&PythonLayout::text_state, kObjectHeadMax},
    {&PythonLayout::text_size, kObjectHeadMax},         {&PythonLayout::bytes_size, kObjectHeadMax},
    {&PythonLayout::bytes_data, kObjectHeadMax},
};

/// Reads the fields of one _Py_DebugOffsets.
class DebugOffsets {
 public:
  explicit DebugOffsets(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// Offsets beyond 32 bits come back as the largest value, which no bound lets pass.
  std::uint32_t at(unsigned field) const {
    constexpr std::uint64_t kMost = UINT32_MAX;
    return static_cast<std::uint32_t>(std::min(value_at(bytes_, field * sizeof(std::uint64_t)), kMost));
  }

 private:
  std::span<const std::byte> bytes_;
};

PythonLayout read_offsets(const DebugOffsetsLayout& place, const DebugOffsets& offsets) {
  PythonLayout layout;
  layout.version = place.version;
  layout.interpreters_head = offsets.at(place.runtime + 2);
  layout.interpreter_next = offsets.at(place.interpreter + 2);
  layout.threads_head = offsets.at(place.interpreter + 3);
  const unsigned gil = place.interpreter + 8 + place.interpreter_extra;
  layout.gil = offsets.at(gil);
  // The offsets of its parts count from the interpreter, which has a lock of its own at gil + 1.
  layout.gil_locked = offsets.at(gil + 3) - offsets.at(gil + 1);
  layout.gil_holder = offsets.at(gil + 4) - offsets.at(gil + 1);
  layout.thread_next = offsets.at(place.thread + 2);
  layout.thread_interpreter = offsets.at(place.thread + 3);
  layout.thread_frame = offsets.at(place.thread + 4);
  layout.thread_id = offsets.at(place.thread + 5);
  layout.thread_native_id = offsets.at(place.thread + 6);
  layout.thread_chunk = offsets.at(place.thread + 7);
  layout.frame_size = offsets.at(place.frame);
  layout.frame_previous = offsets.at(place.frame + 1);
  layout.frame_code = offsets.at(place.frame + 2);
  layout.frame_instruction = offsets.at(place.frame + 3);
  layout.frame_owner = offsets.at(place.frame + 5);
  layout.code_filename = offsets.at(place.code + 1);
  layout.code_name = offsets.at(place.code + 3);
  layout.code_line_table = offsets.at(place.code + 4);
  layout.code_first_line = offsets.at(place.code + 5);
  layout.code_instructions = offsets.at(place.code + 9);
  layout.bytes_size = offsets.at(place.bytes + 1);
  layout.bytes_data = offsets.at(place.bytes + 2);
  layout.text_state = offsets.at(place.text + 1);
  layout.text_length = offsets.at(place.text + 2);
  layout.text_size = offsets.at(place.text + 3);
  constexpr std::uint32_t kUtf8Cache = 16;  // PyCompactUnicodeObject: utf8_length, utf8
  layout.wide_text_size = layout.text_size + kUtf8Cache;
  return layout;
}

bool within_bounds(const PythonLayout& layout) {
  const bool small = std::all_of(std::begin(kBounds), std::end(kBounds), [&layout](const Bound& bound) {
    return layout.*bound.offset + sizeof(std::uint64_t) <= bound.most;
  });
  // The parts of a frame lie within it.
  return small && layout.thread_chunk != 0 && layout.frame_size >= sizeof(std::uint64_t) &&
         std::max({layout.frame_previous, layout.frame_code, layout.frame_instruction}) +
                 sizeof(std::uint64_t) <=
             layout.frame_size &&
         layout.frame_owner < layout.frame_size;
}

}  // namespace

bool PythonLayout::is_shim(std::uint8_t owner) const {
  // FRAME_OWNED_BY_CSTACK of 3.12 and 3.13; FRAME_OWNED_BY_INTERPRETER and _CSTACK of 3.14.
  constexpr std::uint8_t kFirstShim = 3;
  return version >= 0x030c && owner >= kFirstShim;
}

const PythonLayout* layout_from_table(unsigned version) {
  const auto* const found =
      std::find_if(std::begin(kPythonLayouts), std::end(kPythonLayouts),
                   [version](const PythonLayout& layout) { return layout.version == version; });
  return found != std::end(kPythonLayouts) ? found : nullptr;
}

PythonLayout layout_from_debug_offsets(unsigned version_hex, std::span<const std::byte> bytes,
                                       std::string& error) {
  const unsigned version = version_hex >> 16;
  const auto* const place =
      std::find_if(std::begin(kDebugOffsetsLayouts), std::end(kDebugOffsetsLayouts),
                   [version](const DebugOffsetsLayout& one) { return one.version == version; });
  const DebugOffsets offsets(bytes);
  if (place == std::end(kDebugOffsetsLayouts) || bytes.size() < kDebugOffsetsBytes) {
    error = "Python " + version_text(version << 16) + " is not known";
  } else if (std::memcmp(bytes.data(), kCookie.data(), kCookie.size()) != 0 || offsets.at(1) != version_hex) {
    error = "its interpreter does not say where it keeps its threads";
  } else if (offsets.at(2) != 0) {
    error = "a free-threaded build of Python is not supported";
  } else {
    const PythonLayout layout = read_offsets(*place, offsets);
    if (within_bounds(layout)) return layout;
    error = "its interpreter says impossible things about where it keeps its threads";
  }
  return {};
}

std::string version_text(unsigned version_hex) {
  std::string text = std::to_string(version_hex >> 24) + "." + std::to_string(version_hex >> 16 & 0xffU);
  const unsigned micro = version_hex >> 8 & 0xffU;
  const unsigned level = version_hex >> 4 & 0xfU;
  if ((version_hex & 0xffffU) == 0) return text;
  text += "." + std::to_string(micro);
  const char* const word = level == 0xa ? "a" : level == 0xb ? "b" : level == 0xc ? "rc" : "";
  return *word != '\0' ? text + word + std::to_string(version_hex & 0xfU) : text;
}

}  // namespace muster::agent
