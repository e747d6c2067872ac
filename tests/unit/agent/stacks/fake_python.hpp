// SPDX-License-Identifier: Apache-2.0
// An interpreter made of bytes, in any layout, for tests of what is read from outside.
#pragma once

#include "agent/stacks/core/memory_reader.hpp"
#include "agent/stacks/core/python_layout.hpp"
#include "agent/stacks/core/python_process.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace muster::agent::test {

/// One piece of memory that begins at kBase; all else cannot be read.
class FakeMemory final : public MemoryReader {
 public:
  static constexpr std::uint64_t kBase = 0x10000;

  bool read_parts(std::span<const MemoryPart> parts) override {
    ++reads;
    if (before_read) before_read(reads);
    if (expired()) return false;
    for (const MemoryPart& part : parts) {
      if (part.address < kBase || part.address - kBase > bytes.size() ||
          part.bytes > bytes.size() - (part.address - kBase))
        return false;
      std::memcpy(part.into, bytes.data() + (part.address - kBase), part.bytes);
    }
    return true;
  }

  bool expired() override { return reads > reads_max || std::chrono::steady_clock::now() >= deadline; }

  template <typename Value>
  void write(std::uint64_t address, Value value) {
    const std::size_t at = address - kBase;
    (void)bytes.at(at + sizeof value - 1);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }

  std::uint64_t take(std::size_t size) {
    const std::uint64_t address = kBase + bytes.size();
    bytes.resize(bytes.size() + (size + 15) / 16 * 16);
    return address;
  }

  std::vector<std::byte> bytes;
  int reads = 0;
  int reads_max = 1 << 30;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  /// Called before each read with its number, from 1: a program that goes on meanwhile.
  std::function<void(int)> before_read;
};

/// Places in a layout that a test may choose; those of 3.13 and 3.14 stand in their own words, too.
inline PythonLayout layout_of(unsigned version) {
  if (const PythonLayout* const known = layout_from_table(version)) return *known;
  PythonLayout layout = *layout_from_table(0x030c);
  layout.version = version;
  layout.thread_frame = 72;
  layout.interpreters_head = 800;
  return layout;
}

/// Writes the words of 3.13 and 3.14 (_Py_DebugOffsets) for a layout, field by field.
inline std::vector<std::uint64_t> debug_offsets(const PythonLayout& layout, unsigned version_hex) {
  const bool newer = layout.version >= 0x030e;
  std::vector<std::uint64_t> words(kDebugOffsetsBytes / 8, 0x7777777777777777U);
  std::memcpy(words.data(), "xdebugpy", 8);
  words[1] = version_hex;
  words[2] = 0;
  const auto put = [&words](std::size_t at, std::vector<std::uint64_t> values) {
    std::copy(values.begin(), values.end(), words.begin() + static_cast<std::ptrdiff_t>(at));
  };
  constexpr std::uint64_t kNone = 0x7777777777777777U;
  constexpr std::uint64_t kOwnGil = 5000;
  put(3, {kNone, kNone, layout.interpreters_head});
  put(6, {kNone, kNone, layout.interpreter_next, layout.threads_head});
  put(newer ? 15 : 14, {layout.gil, kOwnGil, 0, kOwnGil + layout.gil_locked, kOwnGil + layout.gil_holder});
  put(newer ? 22 : 19, {kNone, kNone, layout.thread_next, layout.thread_interpreter, layout.thread_frame,
                        layout.thread_id, layout.thread_native_id, layout.thread_chunk});
  put(newer ? 31 : 28, {layout.frame_size, layout.frame_previous, layout.frame_code, layout.frame_instruction,
                        kNone, layout.frame_owner});
  put(newer ? 39 : 34, {kNone, layout.code_filename, kNone, layout.code_name, layout.code_line_table,
                        layout.code_first_line, kNone, kNone, kNone, layout.code_instructions});
  put(newer ? 74 : 64, {kNone, layout.bytes_size, layout.bytes_data});
  put(newer ? 77 : 67, {kNone, layout.text_state, layout.text_length, layout.text_size});
  return words;
}

/// An interpreter of a version, whose threads and frames a test adds.
class FakePython {
 public:
  explicit FakePython(unsigned release) : layout(layout_of(release >> 16)), version_hex(release) {
    runtime = memory.take(1024);
    type = memory.take(16);
    interpreter = memory.take(1024);
    gil = memory.take(64);
    if (layout.version >= kFirstWithDebugOffsets) {
      const std::vector<std::uint64_t> words = debug_offsets(layout, version_hex);
      for (std::size_t i = 0; i < words.size(); ++i) memory.write(runtime + 8 * i, words[i]);
    }
    memory.write(runtime + layout.interpreters_head, interpreter);
    if (layout.gil_locked != 0) {
      if (layout.version < 0x030c) gil = runtime + layout.gil;
      if (layout.version >= 0x030c) memory.write(interpreter + layout.gil, gil);
    }
  }

  /// Adds a thread; the newest comes first in the interpreter's list.
  std::uint64_t thread(std::uint64_t native_id) {
    const std::uint64_t at = memory.take(512);
    memory.write(at + layout.thread_next, word(interpreter + layout.threads_head));
    memory.write(at + layout.thread_interpreter, interpreter);
    memory.write(interpreter + layout.threads_head, at);
    if (layout.thread_native_id != 0) memory.write(at + layout.thread_native_id, native_id);
    if (layout.thread_native_id == 0) {
      const std::uint64_t pthread = memory.take(736);
      memory.write(pthread + 720, static_cast<std::uint32_t>(native_id));
      memory.write(at + layout.thread_id, pthread);
    }
    if (layout.has_cframe()) memory.write(at + layout.thread_frame, memory.take(16));
    if (layout.has_chunks()) {
      const std::uint64_t chunk = memory.take(kChunkBytes);
      memory.write(chunk + 8, std::uint64_t{kChunkBytes});
      memory.write(at + layout.thread_chunk, chunk);
      next_frame_ = chunk + 32;
    }
    return at;
  }

  /// Where the thread's newest frame is named.
  std::uint64_t top_of(std::uint64_t thread) const {
    return layout.has_cframe() ? word(thread + layout.thread_frame) + layout.cframe_frame
                               : thread + layout.thread_frame;
  }

  /// Adds a call to the thread that was added last, which its newest frame has made. `unit` is the place in
  /// the code, in units of two bytes.
  std::uint64_t call(std::uint64_t thread, std::uint64_t code, long unit, std::uint8_t owner = 0) {
    const std::size_t size = layout.frame_size + 32;
    const std::uint64_t at = layout.has_chunks() ? next_frame_ : memory.take(size);
    next_frame_ += (size + 15) / 16 * 16;
    memory.write(at + layout.frame_previous, word(top_of(thread)));
    memory.write(at + layout.frame_code, layout.version >= 0x030e ? code | 1 : code);
    write_place(at, code, unit);
    if (layout.frame_owner != 0) memory.write(at + layout.frame_owner, owner);
    memory.write(top_of(thread), at);
    return at;
  }

  void write_place(std::uint64_t frame, std::uint64_t code, long unit) {
    if (layout.code_instructions != 0)
      memory.write(frame + layout.frame_instruction,
                   code + layout.code_instructions + 2 * static_cast<std::uint64_t>(unit));
    else
      memory.write(frame + layout.frame_instruction,
                   static_cast<std::int32_t>(layout.version == 0x0309 ? 2 * unit : unit));
  }

  /// Adds a code object whose unit n is in line first_line + n, for n below 8.
  std::uint64_t code(const std::string& file, const std::string& function, int first_line) {
    const std::uint64_t at = memory.take(256);
    memory.write(at + 8, type);
    memory.write(at + layout.code_filename, text(file));
    memory.write(at + layout.code_name, text(function));
    memory.write(at + layout.code_first_line, first_line);
    memory.write(at + layout.code_line_table, line_table());
    return at;
  }

  std::uint64_t text(const std::string& ascii) {
    const std::uint64_t at = memory.take(layout.text_size + ascii.size());
    memory.write(at + layout.text_length, std::uint64_t{ascii.size()});
    // Kind 1, compact, ascii.
    constexpr std::uint32_t kState = 1U | 1U << 3 | 1U << 4;
    memory.write(at + layout.text_state, layout.version >= 0x030e ? kState << 16 | 1U : kState << 2 | 1U);
    for (std::size_t i = 0; i < ascii.size(); ++i) memory.write(at + layout.text_size + i, ascii[i]);
    return at;
  }

  void give_gil(std::uint64_t thread) {
    memory.write(gil + layout.gil_holder, thread);
    memory.write(gil + layout.gil_locked, std::int32_t{1});
  }

  std::uint64_t word(std::uint64_t address) const {
    std::uint64_t value = 0;
    std::memcpy(&value, &memory.bytes.at(address - FakeMemory::kBase), sizeof value);
    return value;
  }

  PythonRuntime where() const { return {runtime, type, version_hex}; }

  ProcessStacks read(int pid, const std::vector<int>& tasks) {
    std::string error;
    const PythonLayout found = find_layout(memory, where(), error);
    if (found.version != 0) return read_python_stacks(memory, found, where(), pid, tasks);
    ProcessStacks none;
    none.error = error;
    return none;
  }

  static constexpr std::size_t kChunkBytes = 4096;

  FakeMemory memory;
  PythonLayout layout;
  unsigned version_hex;
  std::uint64_t runtime = 0;
  std::uint64_t type = 0;
  std::uint64_t interpreter = 0;
  std::uint64_t gil = 0;

 private:
  std::uint64_t line_table() {
    std::vector<unsigned> table;
    for (unsigned unit = 0; unit < 8; ++unit) {
      const unsigned step = unit == 0 ? 0 : 1;
      if (layout.version >= 0x030b)
        table.insert(table.end(), {0x80U | (10 + step) << 3, 0, 0});
      else if (layout.version == 0x030a)
        table.insert(table.end(), {2, step});
      else
        table.insert(table.end(), {2 * step, step});
    }
    const std::uint64_t at = memory.take(layout.bytes_data + table.size());
    memory.write(at + layout.bytes_size, std::uint64_t{table.size()});
    for (std::size_t i = 0; i < table.size(); ++i)
      memory.write(at + layout.bytes_data + i, static_cast<std::uint8_t>(table[i]));
    return at;
  }

  std::uint64_t next_frame_ = 0;
};

/// A release of each minor version that can be read.
inline constexpr unsigned kReleases[] = {0x03090000, 0x030a0000, 0x030b02f0,
                                         0x030c01f0, 0x030d00f0, 0x030e00f0};

}  // namespace muster::agent::test
