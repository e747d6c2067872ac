// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/mpi_program.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace muster::launcher {
namespace {

// The standard's own ABI (MPI 5), Open MPI, MPICH and what is made from it (Intel MPI, MVAPICH, Cray), for C,
// C++ and Fortran.
constexpr auto kOfMpi = std::to_array<std::string_view>(
    {"libmpi_abi.so", "libmpi.so", "libmpi_cxx.so", "libmpi_mpifh.so", "libmpi_usempif08.so",
     "libmpi_usempi_ignore_tkr.so", "libmpich.so", "libmpichcxx.so", "libmpichfort.so", "libmpicxx.so",
     "libmpifort.so", "libmpi_gnu.so", "libmpi_cray.so"});
constexpr std::string_view kOurs = "libmuster.so";

/// Whether a library is called `name`, perhaps with a version behind it.
bool is_called(std::string_view library, std::string_view name) {
  library.remove_prefix(std::min(library.rfind('/') + 1, library.size()));
  return library.starts_with(name) && (library.size() == name.size() || library[name.size()] == '.');
}

}  // namespace

std::string mpi_library(const std::vector<std::string>& libraries) {
  std::string found;
  for (const std::string& library : libraries) {
    if (is_called(library, kOurs)) return "";
    for (const std::string_view name : kOfMpi)
      if (found.empty() && is_called(library, name)) found = library;
  }
  return found;
}

}  // namespace muster::launcher
