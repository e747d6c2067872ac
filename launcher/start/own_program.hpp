// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::launcher {

/// Returns the path of our executable; empty if it cannot be told.
std::string own_executable();

/// Returns python3 of the virtual environment of Python in which we are installed: that beside our
/// executable, where pyvenv.cfg stands one directory above. Empty if we are in none.
std::string environment_python();

}  // namespace muster::launcher
