// SPDX-License-Identifier: Apache-2.0
// Kernels of the product in the process that the fake of CUDA has for a device: what it can touch, and how it
// begins and ends.
#include "tests/fakes/cuda/cuda_image.hpp"
#include "tests/fakes/cuda/on_device.hpp"
#include "tests/support/catch.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace muster::nn::gpu {
namespace {

using test::choose;

/// The kernel set_samples on a device, which becomes the thread's.
class SetSamplesOn {
 public:
  explicit SetSamplesOn(int device, const std::string& image = test::cubin_for(90)) {
    choose(device);
    REQUIRE(cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    REQUIRE(cuModuleLoadData(&module_, image.c_str()) == CUDA_SUCCESS);
    REQUIRE(cuModuleGetFunction(&kernel_, module_, "muster_set_samples") == CUDA_SUCCESS);
  }

  ~SetSamplesOn() {
    (void)cuModuleUnload(module_);
    (void)cuStreamDestroy(stream_);
  }

  SetSamplesOn(const SetSamplesOn&) = delete;
  SetSamplesOn& operator=(const SetSamplesOn&) = delete;

  CUresult launch(float value, void* to, unsigned threads = 1) {
    SetSamples kernel = {value, false, static_cast<float*>(to)};
    void* arguments[] = {&kernel};
    const CUresult result = cuLaunchKernel(kernel_, 1, 1, 1, threads, 1, 1, 0, stream_, arguments, nullptr);
    return result == CUDA_SUCCESS ? cuStreamSynchronize(stream_) : result;
  }

  CUresult launch(float value, CUdeviceptr to, unsigned threads = 1) {
    return launch(value, fake::address_of(to), threads);
  }

  CUmodule code() { return module_; }

  CUfunction kernel() { return kernel_; }

 private:
  CUstream stream_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
};

CUdeviceptr some_floats() {
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc(&memory, 64) == CUDA_SUCCESS);
  return memory;
}

float first_of(CUdeviceptr memory) {
  float value = 0;
  CHECK(cuMemcpyDtoHAsync(&value, memory, sizeof(value), nullptr) == CUDA_SUCCESS);
  return value;
}

}  // namespace

// A device that is lost stays lost for the process, so each case has devices of its own.
TEST_CASE("a kernel writes memory of its device and pinned memory, made before and after it was loaded") {
  const test::CudaFakes fakes;
  choose(1);
  const CUdeviceptr before = some_floats();
  SetSamplesOn kernel(1);
  const CUdeviceptr after = some_floats();
  void* pinned = nullptr;
  REQUIRE(cuMemAllocHost(&pinned, 64) == CUDA_SUCCESS);
  CHECK(kernel.launch(1, before) == CUDA_SUCCESS);
  CHECK(kernel.launch(2, after) == CUDA_SUCCESS);
  CHECK(kernel.launch(3, pinned) == CUDA_SUCCESS);
  CHECK(first_of(before) == 1.0F);
  CHECK(first_of(after) == 2.0F);
  CHECK(*static_cast<float*>(pinned) == 3.0F);
  CHECK(cuMemFree(before) == CUDA_SUCCESS);
  CHECK(cuMemFree(after) == CUDA_SUCCESS);
  CHECK(cuMemFreeHost(pinned) == CUDA_SUCCESS);
  CUfunction none = nullptr;
  CHECK(cuModuleGetFunction(&none, kernel.code(), "muster_no_such") == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("kernels come from machine code of the device's kind, or from PTX, and are of the device alone") {
  const test::CudaFakes fakes;
  SetSamplesOn translated(1, test::ptx_for("8.2", 75));
  const CUdeviceptr memory = some_floats();
  CHECK(translated.launch(4, memory) == CUDA_SUCCESS);
  CHECK(first_of(memory) == 4.0F);
  CUmodule module = nullptr;
  CHECK(cuModuleLoadData(&module, test::cubin_for(80).data()) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  SetSamples argument = {0, false, nullptr};
  void* arguments[] = {&argument};
  choose(0);
  CHECK(cuLaunchKernel(translated.kernel(), 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) ==
        CUDA_ERROR_INVALID_HANDLE);
  CUfunction other = nullptr;
  CHECK(cuModuleGetFunction(&other, translated.code(), "muster_set_samples") == CUDA_ERROR_INVALID_HANDLE);
  choose(1);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
}

TEST_CASE("a kernel that touches what is not of its device loses the device") {
  const test::CudaFakes fakes;
  const int device = GENERATE(2, 3, 4);
  float on_host = 0;
  choose(0);
  const CUdeviceptr of_other = some_floats();
  SetSamplesOn kernel(device);
  const CUdeviceptr freed = some_floats();
  CHECK(cuMemFree(freed) == CUDA_SUCCESS);
  CHECK(kernel.launch(1, device == 2   ? fake::number_of(&on_host)
                         : device == 3 ? of_other
                                       : freed) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr memory = 0;
  CHECK(cuMemAlloc(&memory, 64) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
  choose(0);
  CHECK(cuMemFree(of_other) == CUDA_SUCCESS);
}

TEST_CASE("more threads than a kernel was compiled for are refused") {
  const test::CudaFakes fakes;
  SetSamplesOn kernel(5);
  const CUdeviceptr memory = some_floats();
  CHECK(kernel.launch(1, memory, 2) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("the process of a device ends with its program, even one that is killed") {
  const test::CudaFakes fakes;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t program = fork();
  if (program == 0) {
    const int device = fake::start_device(6) == CUDA_SUCCESS ? fake::process_of(6) : -1;
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
