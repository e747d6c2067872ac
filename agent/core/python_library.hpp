// SPDX-License-Identifier: Apache-2.0
// Knows what it means that a Python program stands in a file of a library. Pure.
#pragma once

#include <string_view>

namespace muster::agent {

/// What a library's code does when a program stands in it. The names of files are those of CPython 3.9 to
/// 3.14 and PyTorch 2.
enum class LibraryRole {
  none,           ///< not one of those below
  communication,  ///< talks to other ranks
  backward,       ///< computes gradients, at whose end DistributedDataParallel waits for other ranks
  wrapper,        ///< only calls what stands further in
  helpers,        ///< waits for processes that the program has started
  prompt,         ///< asks the user: a debugger, an interactive interpreter
  events,         ///< an event loop
  lock,           ///< waits for another thread
};

LibraryRole role_of_file(std::string_view file);

/// The same for a shared library, by its file name: LibraryRole::communication, or none.
LibraryRole role_of_shared_library(std::string_view name);

/// Whether the file belongs to Python or to an installed package, and not to the user's own program.
bool is_library(std::string_view file);

}  // namespace muster::agent
