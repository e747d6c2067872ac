// SPDX-License-Identifier: Apache-2.0
#include "agent/core/python_library.hpp"

#include "catch.hpp"

#include <utility>
#include <vector>

namespace python_library_test {

using namespace muster::agent;

TEST_CASE("A user's files are told from those of Python and of packages") {
  for (const char* library :
       {"/usr/lib/python3.11/threading.py", "/opt/conda/lib/python3.9/site-packages/torch/_tensor.py",
        "/usr/lib/python3/dist-packages/numpy/__init__.py", "<frozen importlib._bootstrap>"})
    CHECK(is_library(library));
  for (const char* own : {"/home/u/train.py", "train.py", "<string>", "/home/u/lib/python3.py",
                          "/home/u/lib/python3.x", "", "/home/u/threading.py"})
    CHECK_FALSE(is_library(own));
}

TEST_CASE("What a program does in a file of a library") {
  const std::string packages = "/v/lib/python3.12/site-packages/";
  const std::string python = "/usr/lib/python3.12/";
  const std::vector<std::pair<std::string, LibraryRole>> files{
      {packages + "torch/distributed/distributed_c10d.py", LibraryRole::communication},
      {packages + "torch/distributed/c10d_logger.py", LibraryRole::wrapper},
      {packages + "torch/distributed/checkpoint/filesystem.py", LibraryRole::none},
      {packages + "torch/utils/_contextlib.py", LibraryRole::wrapper},
      {packages + "torch/utils/data/dataloader.py", LibraryRole::helpers},
      {packages + "deepspeed/comm/torch.py", LibraryRole::communication},
      {packages + "torch/nn/modules/linear.py", LibraryRole::none},
      {python + "contextlib.py", LibraryRole::wrapper},
      {python + "concurrent/futures/process.py", LibraryRole::helpers},
      {python + "concurrent/futures/thread.py", LibraryRole::lock},
      {python + "asyncio/events.py", LibraryRole::events},
      {python + "pdb.py", LibraryRole::prompt},
      // Of the same name, but the user's own.
      {"/home/u/queue.py", LibraryRole::none},
      {"/home/u/asyncio/pdb.py", LibraryRole::none},
  };
  for (const auto& [file, role] : files) {
    INFO(file);
    CHECK(role_of_file(file) == role);
  }
}

}  // namespace python_library_test
