// SPDX-License-Identifier: Apache-2.0
// Tells programs of MPI by the libraries that they need. Pure.
#pragma once

#include <string>
#include <vector>

namespace muster::launcher {

/// Returns the library of MPI by which a program that needs `libraries` itself finds its peers; "" if it has
/// none, or finds them by libmuster, too.
std::string mpi_library(const std::vector<std::string>& libraries);

}  // namespace muster::launcher
