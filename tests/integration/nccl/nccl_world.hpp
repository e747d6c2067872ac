// SPDX-License-Identifier: Apache-2.0
// What the tests of the nccl backend share: the fakes' folder, groups, and buffers on a device. The same
// tests run on real GPUs (scripts/check_gpu.sh): then MUSTER_TEST_GPUS is set and the fakes are not.
#pragma once

#include "tests/contract/memory.hpp"
#include "worker_sdk/comm/nccl/library.hpp"
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <memory>
#include <string>
#include <vector>

namespace muster::test {

namespace detail {
/// Throws std::runtime_error when there is no such function.
void* find_in_driver(const char* name);
}  // namespace detail

/// How many real GPUs the test may use; 0: the fakes.
int real_gpus();

/// A folder for the fakes, and the environment that they read. Made before ranks are forked.
class FakeGpus {
 public:
  FakeGpus();
  ~FakeGpus();
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;

  /// A variable for the ranks that are forked next, gone with this object.
  void set(const std::string& name, const std::string& value);

  /// The rules that were broken, one a line, without those whose name begins with `expected`: calls that
  /// differ between ranks are wrong on purpose in most tests, and it is for us to find them.
  std::string violations(const std::string& expected = "") const;

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  std::vector<std::string> variables_;
};

/// A function of CUDA's driver that the backend itself does not use.
template <typename Function>
Function driver_function(const char* name) {
  return reinterpret_cast<Function>(detail::find_in_driver(name));
}

/// Inside a rank's process; the calling thread is then in the context of the group's device. On one real GPU
/// its ranks pose as hosts (NCCL_HOSTID), which NCCL then connects through the network of this machine.
std::unique_ptr<ProcessGroup> make_nccl_group(StoreClient& store, int rank, int size,
                                              const ProcessGroupOptions& options);

/// Buffers on the device of the thread that makes this object; any thread may use them.
class DeviceMemory : public contract::Memory {
 public:
  DeviceMemory();
  ~DeviceMemory() override;
  std::unique_ptr<contract::Buffer> make(std::size_t bytes, std::size_t shift) override;
  void write(void* place, const contract::Bytes& bytes) override;
  contract::Bytes read(const void* place, std::size_t bytes) override;

  CUstream stream() const { return stream_; }

 private:
  class Piece;
  class Current;

  const nccl::Library& api_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
};

}  // namespace muster::test
