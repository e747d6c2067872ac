// SPDX-License-Identifier: Apache-2.0
// What the real libmuster_cuda.so says where something is missing or too old. It loads its libraries once in
// the life of a process, so each row is a process of its own.
#include "tests/fakes/cuda/environment.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/folder.hpp"
#include "worker_sdk/nn/gpu/plugin/device.hpp"

#include <sys/wait.h>
#include <unistd.h>

namespace muster::nn::gpu {
namespace {

/// The reason that probe_device() gives in a process of its own, or the name of the device.
std::string probe(int local_rank) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    const DeviceUsability found = probe_device("cuda", local_rank);
    const std::string text = found.reason_against.empty() ? found.name : found.reason_against;
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char part[512];
  for (ssize_t count = 0; (count = read(ends[0], part, sizeof(part))) > 0;)
    text.append(part, static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  return text;
}

struct Row {
  const char* variable;
  std::string value;
  std::string text;
  int local_rank = 0;
};

}  // namespace

TEST_CASE("a device is refused for one reason, which says what to do") {
  const std::string here = MUSTER_FAKE_DIR;
  const Row row = GENERATE_COPY(values<Row>({
      {"FAKE_CUDA_DEVICES", "1", "Fake of a GPU"},
      {"FAKE_CUDA_DEVICES", "mismatch", "libcuda.so.1 is of another version"},
      {"FAKE_CUDA_DEVICES", "0", "look at `nvidia-smi` and CUDA_VISIBLE_DEVICES"},
      {"FAKE_CUDA_DEVICES", "1", "device 1 is wanted and this process sees 1 GPU; start fewer ranks", 1},
      {"FAKE_CUDA_DRIVER", "12010", "the driver is for CUDA 12.1, and 12.2 is the oldest"},
      {"FAKE_CUDA_DRIVER", "12080", "is made for CUDA 13.0, and the driver is for CUDA 12.8; install cuDNN"},
      {"FAKE_CUDA_CAPABILITY", "70", "has compute capability 7.0 and 7.5 is the oldest"},
      {"FAKE_CUDNN_VERSION", "100000", "cuDNN that was loaded is of version 10, and Muster was built for 9"},
      {"MUSTER_CUDNN_LIBRARY", muster::test::absent() + "/libcudnn.so",
       "MUSTER_CUDNN_LIBRARY names '" + muster::test::absent()},
      {"MUSTER_CUDNN_LIBRARY", here + "/libcuda.so.1", "the library has no function cudnnCreate"},
      {"MUSTER_CUDA_DRIVER_LIBRARY", muster::test::absent() + "/libcuda.so",
       "MUSTER_CUDA_DRIVER_LIBRARY names '" + muster::test::absent()},
  }));
  test::CudaFakes fakes;
  fakes.set(row.variable, row.value);
  CAPTURE(row.variable, row.value);
  const std::string text = probe(row.local_rank);
  CHECK_THAT(text, Contains(row.text));
  CHECK(text.find('\n') == std::string::npos);
}

}  // namespace muster::nn::gpu
