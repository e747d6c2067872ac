// SPDX-License-Identifier: Apache-2.0
// The question to an interpreter, and what its answer says. Pure.
#pragma once

#include "launcher/doctor/core/host_facts.hpp"

#include <cstddef>
#include <string>

namespace muster::launcher {

/// A program in Python (3.8 or newer) that prints one line of JSON: its path and version, and those of
/// PyTorch, whose file of versions it runs.
extern const char* const kPythonQuestion;

/// Fills in what the interpreter printed on stdout, the last line, and, if that is no answer, the end of its
/// stderr as `error`. Each text is cut to kPythonTextMax bytes.
void take_python_answer(const std::string& out, const std::string& errors, PythonFacts& facts);

inline constexpr std::size_t kPythonTextMax = 300;

}  // namespace muster::launcher
