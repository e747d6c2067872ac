// SPDX-License-Identifier: Apache-2.0
// Where CPython keeps its threads, frames and code objects, for each version that is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace muster::agent {

/// Offsets in bytes within CPython's own structures, whose names the comments give. Value type.
struct PythonLayout {
  /// Major and minor version: 0x030b is 3.11.
  std::uint32_t version = 0;

  std::uint32_t interpreters_head = 0;  ///< _PyRuntimeState: the newest interpreter

  std::uint32_t interpreter_next = 0;  ///< PyInterpreterState
  std::uint32_t threads_head = 0;      ///< PyInterpreterState: the newest thread

  /// _gil_runtime_state: 3.11 has one in _PyRuntimeState at `gil`, later versions a pointer in
  /// PyInterpreterState at `gil`. `gil_locked` 0: the version does not tell who holds it.
  std::uint32_t gil = 0;
  std::uint32_t gil_holder = 0;
  std::uint32_t gil_locked = 0;

  std::uint32_t thread_next = 0;  ///< PyThreadState
  std::uint32_t thread_interpreter = 0;
  std::uint32_t thread_id = 0;         ///< what pthread_self() returned
  std::uint32_t thread_native_id = 0;  ///< 0: not kept
  std::uint32_t thread_frame = 0;      ///< 3.11 and 3.12: the pointer to _PyCFrame; else to the frame
  std::uint32_t thread_chunk = 0;      ///< _PyStackChunk that holds the newest frames; 0: frames are objects
  std::uint32_t cframe_frame = 0;      ///< _PyCFrame, in 3.11 and 3.12

  std::uint32_t frame_size = 0;  ///< PyFrameObject, from 3.11 on _PyInterpreterFrame, without its variables
  std::uint32_t frame_previous = 0;
  std::uint32_t frame_code = 0;
  std::uint32_t frame_instruction = 0;  ///< f_lasti; from 3.11 on a pointer into the code
  std::uint32_t frame_owner = 0;        ///< one byte; 0 before 3.11

  std::uint32_t code_filename = 0;  ///< PyCodeObject
  std::uint32_t code_name = 0;      ///< co_qualname, before 3.11 co_name
  std::uint32_t code_first_line = 0;
  std::uint32_t code_line_table = 0;
  std::uint32_t code_instructions = 0;  ///< from 3.11 on, where they are a part of the object

  std::uint32_t text_length = 0;  ///< PyASCIIObject
  std::uint32_t text_state = 0;
  std::uint32_t text_size = 0;  ///< size of PyASCIIObject, which the characters of a plain ASCII text follow
  std::uint32_t wide_text_size = 0;  ///< size of PyCompactUnicodeObject, which those of other texts follow

  std::uint32_t bytes_size = 0;  ///< PyBytesObject
  std::uint32_t bytes_data = 0;

  /// Whether a frame marks where C code called the interpreter, and holds no Python code.
  bool is_shim(std::uint8_t owner) const;

  bool has_cframe() const { return version == 0x030b || version == 0x030c; }

  /// Whether frames lie in chunks of a stack, not each in an object of its own.
  bool has_chunks() const { return thread_chunk != 0; }
};

/// Most bytes of a thread's state, a frame and a code object that a layout may refer to.
inline constexpr std::uint32_t kThreadBytesMax = 4096;
inline constexpr std::uint32_t kFrameBytesMax = 1024;
inline constexpr std::uint32_t kCodeBytesMax = 1024;

/// Size of the structure _Py_DebugOffsets at the beginning of _PyRuntime of 3.13 and newer, as far as it is
/// read.
inline constexpr std::size_t kDebugOffsetsBytes = 672;

/// Returns the layout of a version before 3.13, from the generated table; nullptr if it is not known.
const PythonLayout* layout_from_table(unsigned version);

/// Reads _Py_DebugOffsets (CPython's Include/internal/pycore_debug_offsets.h; in 3.13 pycore_runtime.h).
/// `version_hex` is that of the binary, PY_VERSION_HEX. On failure `version` of the result is 0, and `error`
/// says why: another cookie, a free-threaded build, offsets out of bounds.
PythonLayout layout_from_debug_offsets(unsigned version_hex, std::span<const std::byte> bytes,
                                       std::string& error);

/// Returns a text such as "3.11.2", "3.14.0rc2", or "3.9" for a version without micro (0x03090000).
std::string version_text(unsigned version_hex);

/// The versions that can be read, for messages.
inline constexpr const char* kKnownVersions = "3.9 to 3.14 are";
inline constexpr unsigned kOldestVersion = 0x0309;
inline constexpr unsigned kNewestVersion = 0x030e;
inline constexpr unsigned kFirstWithDebugOffsets = 0x030d;
inline constexpr unsigned kFirstWithVersionSymbol = 0x030b;

}  // namespace muster::agent
