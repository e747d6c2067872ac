// SPDX-License-Identifier: Apache-2.0
// Kernels of the product in the process that the fake of CUDA has for a device: what it can touch, and how it
// begins and ends.
#include "tests/fakes/cuda/environment.hpp"
#include "tests/fakes/cuda/fake_cuda.hpp"
#include "tests/support/catch.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace muster::nn::gpu {
namespace {

/// As much of a fat binary as the fake looks at.
constexpr std::uint32_t kImage = 0xBA55ED50;

/// The kernel set_samples on a device, which becomes the thread's.
class SetSamplesOn {
 public:
  explicit SetSamplesOn(int device) {
    REQUIRE(cudaSetDevice(device) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0) == cudaSuccess);
    REQUIRE(cudaLibraryLoadData(&library_, &kImage, nullptr, nullptr, 0, nullptr, nullptr, 0) == cudaSuccess);
    REQUIRE(cudaLibraryGetKernel(&kernel_, library_, "muster_set_samples") == cudaSuccess);
  }

  ~SetSamplesOn() {
    (void)cudaLibraryUnload(library_);
    (void)cudaStreamDestroy(stream_);
  }

  SetSamplesOn(const SetSamplesOn&) = delete;
  SetSamplesOn& operator=(const SetSamplesOn&) = delete;

  cudaError_t launch(float value, float* to, unsigned threads = 1) {
    SetSamples kernel = {value, false, to};
    void* arguments[] = {&kernel};
    const cudaError_t result = cudaLaunchKernel(kernel_, dim3(1), dim3(threads), arguments, 0, stream_);
    return result == cudaSuccess ? cudaStreamSynchronize(stream_) : result;
  }

  cudaLibrary_t library() { return library_; }

 private:
  cudaStream_t stream_ = nullptr;
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
};

float* some_floats() {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 64) == cudaSuccess);
  return static_cast<float*>(memory);
}

float first_of(const float* memory) {
  float value = 0;
  CHECK(cudaMemcpy(&value, memory, sizeof(value), cudaMemcpyDeviceToHost) == cudaSuccess);
  return value;
}

}  // namespace

// A device that is lost stays lost for the process, so each case has devices of its own.
TEST_CASE("a kernel writes memory of its device and pinned memory, made before and after it was loaded") {
  const test::CudaFakes fakes;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  float* const before = some_floats();
  SetSamplesOn kernel(1);
  float* const after = some_floats();
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 64) == cudaSuccess);
  CHECK(kernel.launch(1, before) == cudaSuccess);
  CHECK(kernel.launch(2, after) == cudaSuccess);
  CHECK(kernel.launch(3, static_cast<float*>(pinned)) == cudaSuccess);
  CHECK(first_of(before) == 1.0F);
  CHECK(first_of(after) == 2.0F);
  CHECK(*static_cast<float*>(pinned) == 3.0F);
  CHECK(cudaFree(before) == cudaSuccess);
  CHECK(cudaFree(after) == cudaSuccess);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  cudaKernel_t none = nullptr;
  CHECK(cudaLibraryGetKernel(&none, kernel.library(), "muster_no_such") == cudaErrorSymbolNotFound);
}

TEST_CASE("a kernel that touches what is not of its device loses the device") {
  const test::CudaFakes fakes;
  const int device = GENERATE(2, 3, 4);
  float on_host = 0;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  float* const of_other = some_floats();
  SetSamplesOn kernel(device);
  float* const freed = some_floats();
  CHECK(cudaFree(freed) == cudaSuccess);
  CHECK(kernel.launch(1, device == 2 ? &on_host : device == 3 ? of_other : freed) == cudaErrorIllegalAddress);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 64) == cudaErrorIllegalAddress);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaFree(of_other) == cudaSuccess);
}

TEST_CASE("more threads than a kernel was compiled for are refused") {
  const test::CudaFakes fakes;
  SetSamplesOn kernel(5);
  float* const memory = some_floats();
  CHECK(kernel.launch(1, memory, 2) == cudaErrorInvalidConfiguration);
}

TEST_CASE("the process of a device ends with its program, even one that is killed") {
  const test::CudaFakes fakes;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t program = fork();
  if (program == 0) {
    const int device = fake::start_device(6) == cudaSuccess ? fake::process_of(6) : -1;
    if (write(ends[1], &device, sizeof(device)) != static_cast<ssize_t>(sizeof(device))) _exit(1);
    for (;;) pause();
  }
  int device = -1;
  CHECK(read(ends[0], &device, sizeof(device)) == static_cast<ssize_t>(sizeof(device)));
  const auto handle = static_cast<int>(syscall(SYS_pidfd_open, device, 0));
  CHECK(handle >= 0);
  CHECK(kill(program, SIGKILL) == 0);
  CHECK(waitpid(program, nullptr, 0) == program);
  pollfd end = {handle, POLLIN, 0};
  CHECK(poll(&end, 1, 20'000) == 1);
  for (const int fd : {handle, ends[0], ends[1]}) close(fd);
}

}  // namespace muster::nn::gpu
