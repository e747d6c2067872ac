// SPDX-License-Identifier: Apache-2.0
// The environment of the fakes of CUDA and cuDNN, which a test's LD_LIBRARY_PATH puts first.
#pragma once

#include "tests/support/folder.hpp"

#include <cstdlib>
#include <string>
#include <vector>

namespace muster::test {

/// A folder for the fakes and what they are told, gone with this object.
class CudaFakes {
 public:
  CudaFakes() { set("FAKE_GPU_DIR", folder_.path()); }

  ~CudaFakes() {
    for (const std::string& name : variables_) unsetenv(name.c_str());
  }

  CudaFakes(const CudaFakes&) = delete;
  CudaFakes& operator=(const CudaFakes&) = delete;

  void set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }

  /// The rules that were broken, one a line.
  std::string violations() const { return bytes_of_file(folder_ / "violations"); }

 private:
  Folder folder_;
  std::vector<std::string> variables_;
};

}  // namespace muster::test
