// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/mpi_program.hpp"

#include "tests/unit/launcher/job_spec/resolve.hpp"

namespace mpi_program_test {

using namespace muster::launcher;

namespace {

/// A machine where ./solver and the command `solve` are programs of MPI; jobs with hosts run in /here.
FakeSystem machine() {
  FakeSystem system;
  for (const char* file : {"./solver", "/here/./solver", "/bin/solve"}) {
    system.files[file] = FileKind::executable;
    system.libraries[file] = {"libm.so.6", "libmpi.so.40", "libc.so.6"};
  }
  return system;
}

}  // namespace

TEST_CASE("A program of MPI is known by a library of MPI, unless it has ours") {
  CHECK(mpi_library({"libm.so.6", "libmpi.so.40", "libc.so.6"}) == "libmpi.so.40");
  CHECK(mpi_library({"libmpich.so.12"}) == "libmpich.so.12");
  CHECK(mpi_library({"libmpi_abi.so.0"}) == "libmpi_abi.so.0");
  CHECK(mpi_library({"libmpi_cxx.so.40", "libmpi.so.40"}) == "libmpi_cxx.so.40");
  CHECK(mpi_library({"/opt/mpi/lib/libmpi.so"}) == "/opt/mpi/lib/libmpi.so");
  CHECK(mpi_library({"libmpi.so.40", "libmuster.so.0"}).empty());
  CHECK(mpi_library({"libmpix.so.1", "libmpi.so2", "libc.so.6", ""}).empty());
  CHECK(mpi_library({}).empty());
}

TEST_CASE("A program of MPI is refused where its workers would each be alone") {
  const FakeSystem system = machine();
  CHECK(resolve_error({"--nproc-per-node", "4", "./solver", "8"}, system) ==
        "'./solver' is an MPI program (it needs libmpi.so.40), which muster run cannot connect: each worker "
        "would be rank 0 of 1; start it with mpirun, or give --allow-singletons if each shall work alone");
  CHECK(resolve_error({"--nproc-per-node", "4", "solve"}, system).starts_with("'solve' is an MPI program"));
  CHECK(resolve_error({"--nproc-per-node", "4", "--no-python", "solve"}, system)
            .starts_with("'solve' is an MPI program"));
  CHECK(resolve_error({"-H", "node7,n1", "./solver"}, system).starts_with("'./solver' is an MPI program"));
  // Its file is here, too, where it does not run.
  CHECK(resolve_error({"-H", "n1:2", "./solver"}, system).starts_with("'./solver' is an MPI program"));
}

TEST_CASE("A program of MPI runs alone, and where that is wanted") {
  const FakeSystem system = machine();
  CHECK(resolve_error({"./solver"}, system).empty());
  CHECK(resolve_error({"--nproc-per-node", "4", "--allow-singletons", "./solver"}, system).empty());
  CHECK(resolve_error({"--nproc-per-node", "4", "true"}, system).empty());
  CHECK(resolve_error({"--nproc-per-node", "4", "train.py"}, system).empty());
}

}  // namespace mpi_program_test
