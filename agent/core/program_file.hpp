// SPDX-License-Identifier: Apache-2.0
// What the first bytes of a file say about executing it, by the rules of the kernel (execve(2)). Pure; takes
// any bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::agent {

/// Bytes of a file that the kernel looks at.
inline constexpr std::size_t kProgramHeadBytes = 256;

/// The first line of a script: "#!INTERPRETER [ARGUMENT]", both as the kernel reads them.
struct Shebang {
  /// Empty: the file has no such line.
  std::string interpreter;
  std::string argument;
};

Shebang shebang_of(std::string_view head);

/// Returns why that line cannot work, and what to do; "" if it can, or there is none.
/// `interpreter_is_missing`: whether there is no such file.
std::string shebang_obstacle(const Shebang& shebang, bool interpreter_is_missing);

/// Returns what is wrong with a file that exists and that the kernel would not execute, and what to do; ""
/// where its first bytes do not tell. `error_number` is that of execve().
std::string exec_obstacle(int error_number, std::string_view head);

}  // namespace muster::agent
