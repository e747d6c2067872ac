// SPDX-License-Identifier: Apache-2.0
// Finds the interpreter in an executable or a shared library.
#pragma once

#include "agent/stacks/core/memory_reader.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

/// What a binary with an interpreter says of it. Addresses are those of the file; `load_bias` makes them
/// those of a process.
struct PythonBinary {
  /// Address of the symbol _PyRuntime.
  std::uint64_t runtime = 0;
  /// Address of PyCode_Type; 0: not told.
  std::uint64_t code_type = 0;
  /// PY_VERSION_HEX, from the symbol Py_Version; 0 before 3.11.
  unsigned version_hex = 0;
  /// Address and place in the file of the first part that is loaded.
  std::uint64_t first_address = 0;
  std::uint64_t first_offset = 0;

  /// Returns what is to be added to an address of the file in a process that has mapped the file's byte
  /// `offset` at `start`; 0 for an executable that is not position-independent.
  std::uint64_t load_bias(std::uint64_t start, std::uint64_t offset) const {
    return start - offset - (first_address - first_offset);
  }
};

/// Reads an ELF file (elf(5)) of this machine's kind, addresses being places in the file. nullopt if it is
/// none, or has no interpreter. Reads at most some megabytes, whatever the file says of itself.
std::optional<PythonBinary> find_python(MemoryReader& file);

/// Returns the bytes at the beginning of an ELF file by which a process's copy of it is compared with the
/// file: its header and its table of loaded parts. Empty if there is none.
std::vector<std::byte> head_of(MemoryReader& file);

/// What the name of a binary says: "libpython3.9.so.1.0", "python3.10". 0 if it names no version.
struct NamedVersion {
  /// PY_VERSION_HEX with lower 16 bits 0.
  unsigned version_hex = 0;
  /// Letters behind the version: "t" for a free-threaded build, "d" for one with debug checks.
  std::string flags;
};

NamedVersion version_of_name(const std::string& path);

}  // namespace muster::agent
