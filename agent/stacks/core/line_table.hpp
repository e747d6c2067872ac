// SPDX-License-Identifier: Apache-2.0
// Which line an instruction of a CPython code object belongs to.
#pragma once

#include <cstddef>
#include <span>

namespace muster::agent {

/// Reads a line table in the format of a version (0x0309 for 3.9): co_lnotab of 3.9 (Objects/lnotab_notes.txt
/// of CPython), co_linetable of 3.10 (the same file) and of 3.11 and newer (Objects/locations.md, later
/// InternalDocs/code_objects.md). `instruction` is the place in the code in units of two bytes, -1 before the
/// first; in 3.9 it is the place in bytes. Returns the line, or 0 if the table does not tell. Takes time in
/// proportion to the table, whatever it holds.
int line_of(unsigned version, std::span<const std::byte> table, int first_line, long instruction);

}  // namespace muster::agent
