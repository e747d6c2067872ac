// SPDX-License-Identifier: Apache-2.0
#include "agent/core/python_library.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace muster::agent {
namespace {

using enum LibraryRole;

/// Parts of paths and what stands there, the first that fits. A part that begins and ends with a slash is a
/// folder, one that only begins with a slash the end of a path.
constexpr std::array<std::pair<std::string_view, LibraryRole>, 50> kRoles{{
    {"/torch/distributed/distributed_c10d.py", communication},
    {"/torch/distributed/c10d_logger.py", wrapper},
    {"/torch/distributed/rendezvous.py", communication},
    {"/torch/distributed/_functional_collectives.py", communication},
    {"/torch/distributed/nn/functional.py", communication},
    {"/torch/distributed/utils.py", communication},
    {"/torch/distributed/device_mesh.py", communication},
    {"/torch/distributed/algorithms/join.py", communication},
    {"/torch/distributed/rpc/", communication},
    {"/torch/distributed/elastic/utils/store.py", communication},
    {"/torch/nn/parallel/distributed.py", communication},
    {"/torch/distributed/fsdp/", communication},
    {"/deepspeed/comm/", communication},
    {"/horovod/", communication},
    {"/mpi4py/", communication},
    {"/torch/autograd/graph.py", backward},
    {"/torch/autograd/__init__.py", backward},
    {"/torch/_tensor.py", wrapper},
    {"/torch/_ops.py", wrapper},
    {"/torch/utils/_contextlib.py", wrapper},
    {"/torch/_dynamo/", wrapper},
    {"/contextlib.py", wrapper},
    {"/functools.py", wrapper},
    {"/torch/utils/data/", helpers},
    {"/multiprocessing/pool.py", helpers},
    {"/multiprocessing/process.py", helpers},
    {"/multiprocessing/queues.py", helpers},
    {"/multiprocessing/connection.py", helpers},
    {"/multiprocessing/popen_fork.py", helpers},
    {"/multiprocessing/popen_spawn_posix.py", helpers},
    {"/multiprocessing/popen_forkserver.py", helpers},
    {"/multiprocessing/managers.py", helpers},
    {"/torch/multiprocessing/", helpers},
    {"/concurrent/futures/process.py", helpers},
    {"/joblib/", helpers},
    {"/subprocess.py", helpers},
    {"/pdb.py", prompt},
    {"/bdb.py", prompt},
    {"/cmd.py", prompt},
    {"/code.py", prompt},
    {"/IPython/terminal/", prompt},
    {"/prompt_toolkit/", prompt},
    {"/asyncio/", events},
    {"/ipykernel/", events},
    {"/tornado/", events},
    {"/socketserver.py", events},
    {"/selectors.py", events},
    {"/threading.py", lock},
    {"/queue.py", lock},
    {"/concurrent/futures/", lock},
}};

/// Beginnings of the names of shared libraries that carry messages between ranks: PyTorch's, in which Gloo
/// and the store's client are, NCCL's, those of MPI and UCX.
constexpr std::array<std::string_view, 7> kMessengers{"libtorch", "libc10", "libnccl", "libgloo",
                                                      "libmpi",   "libucp", "libucc"};

bool fits(std::string_view file, std::string_view part) {
  return part.back() == '/' ? file.find(part) != std::string_view::npos : file.ends_with(part);
}

}  // namespace

bool is_library(std::string_view file) {
  if (file.starts_with("<frozen ")) return true;
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"})
    if (file.find(folder) != std::string_view::npos) return true;
  // The standard library is in lib/python3.N/, where nothing of a user's is.
  constexpr std::string_view kStandard = "/lib/python3.";
  const std::size_t found = file.find(kStandard);
  if (found == std::string_view::npos) return false;
  const std::size_t digit = found + kStandard.size();
  return digit < file.size() && file[digit] >= '0' && file[digit] <= '9' &&
         file.find('/', digit) != std::string_view::npos;
}

LibraryRole role_of_file(std::string_view file) {
  if (!is_library(file)) return none;
  for (const auto& [part, role] : kRoles)
    if (fits(file, part)) return role;
  return none;
}

LibraryRole role_of_shared_library(std::string_view name) {
  return std::any_of(kMessengers.begin(), kMessengers.end(),
                     [name](std::string_view beginning) { return name.starts_with(beginning); })
             ? communication
             : none;
}

}  // namespace muster::agent
