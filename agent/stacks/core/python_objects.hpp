// SPDX-License-Identifier: Apache-2.0
// Reads texts and code objects of CPython out of another process.
#pragma once

#include "agent/stacks/core/memory_reader.hpp"
#include "agent/stacks/core/process_stacks.hpp"
#include "agent/stacks/core/python_layout.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

/// Most characters of a name that are read and kept: of a file the last ones, which tell it from others.
inline constexpr std::size_t kFileCharactersMax = 400;
inline constexpr std::size_t kFunctionCharactersMax = 200;

/// Which end of a text is kept if it is too long.
enum class KeptEnd { first, last };

/// Reads a compact str object (CPython's PyASCIIObject and PyCompactUnicodeObject) as UTF-8 that is safe to
/// print. nullopt if there is none at this address. At most `most` characters; what is left out shows as
/// "...".
std::optional<std::string> read_python_text(MemoryReader& memory, const PythonLayout& layout,
                                            std::uint64_t address, std::size_t most, KeptEnd kept);

/// The code objects of one interpreter, each read once. What was read stands as long as the process is read,
/// not longer: a program may use the memory again. Used from one thread.
class CodeObjects {
 public:
  /// `type` is the address of PyCode_Type, by which a code object is known; 0: not known.
  CodeObjects(MemoryReader& memory, const PythonLayout& layout, std::uint64_t type)
      : memory_(memory), layout_(layout), type_(type) {}

  /// Returns the call of the code object at `code` at an instruction, as frames keep it: a pointer, before
  /// 3.11 a number. nullopt if there is no code object.
  std::optional<Frame> call(std::uint64_t code, std::uint64_t instruction);

 private:
  struct Code {
    std::string file;
    std::string function;
    int first_line = 0;
    std::vector<std::byte> line_table;
  };

  std::optional<Code> read_code(std::uint64_t address);
  std::vector<std::byte> read_line_table(std::uint64_t address);

  MemoryReader& memory_;
  const PythonLayout& layout_;
  std::uint64_t type_;
  std::map<std::uint64_t, std::optional<Code>> known_;
  std::size_t bytes_kept_ = 0;
};

}  // namespace muster::agent
