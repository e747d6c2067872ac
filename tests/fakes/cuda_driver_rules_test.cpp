// SPDX-License-Identifier: Apache-2.0
// Breaks each rule that the fake of CUDA's driver keeps about its start, contexts, kinds of memory, graphs'
// priorities and modules, to see that it notices.
#include "tests/fakes/cuda/cuda_image.hpp"
#include "tests/fakes/cuda/internal.hpp"
#include "tests/fakes/cuda/on_device.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <thread>

namespace {

using muster::test::choose;
using muster::test::Event;
using muster::test::OnDevice;
using muster::test::Stream;

}  // namespace

TEST_CASE("rule: the driver does not start without a device, or over another one") {
  muster::test::CudaFakes fakes;
  fakes.set("FAKE_CUDA_DEVICES", "0");
  CHECK(cuInit(0) == CUDA_ERROR_NO_DEVICE);
  fakes.set("FAKE_CUDA_DEVICES", "mismatch");
  fakes.set("FAKE_CUDA_DRIVER", "12020");
  CHECK(cuInit(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  int version = 0;
  CHECK(cuDriverGetVersion(&version) == CUDA_SUCCESS);
  CHECK(version == 12020);
  fakes.set("FAKE_CUDA_DEVICES", "2");
  CHECK(cuInit(0) == CUDA_SUCCESS);
  int count = 0;
  CHECK(cuDeviceGetCount(&count) == CUDA_SUCCESS);
  CHECK(count == 2);
  CUdevice device = 0;
  CHECK(cuDeviceGet(&device, 2) == CUDA_ERROR_INVALID_DEVICE);
  const char* text = nullptr;
  CHECK(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text) == CUDA_SUCCESS);
  CHECK(text == std::string("an illegal memory access was encountered"));
  CHECK(cuGetErrorString(static_cast<CUresult>(998), &text) == CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
}

TEST_CASE("rule: a thread has the contexts that it has chosen, and no call makes one") {
  const OnDevice fakes;
  const Stream stream;
  const Event event;
  std::thread([&] {
    CUcontext context = nullptr;
    CHECK(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    CHECK(context == nullptr);
    CUdeviceptr memory = 0;
    CUdevice device = 0;
    CHECK(cuCtxGetDevice(&device) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuMemAlloc(&memory, 16) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuEventQuery(event) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuCtxPopCurrent(&context) == CUDA_ERROR_INVALID_CONTEXT);
    choose(0);
    CHECK(cuDevicePrimaryCtxRetain(&context, 3) == CUDA_SUCCESS);
    CHECK(cuCtxPushCurrent(context) == CUDA_SUCCESS);
    CHECK(cuCtxGetDevice(&device) == CUDA_SUCCESS);
    CHECK(device == 3);
    CHECK(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
    CHECK(cuCtxGetDevice(&device) == CUDA_SUCCESS);
    CHECK(device == 0);
    CHECK(cuCtxPopCurrent(&context) == CUDA_SUCCESS);
    CHECK(cuCtxGetDevice(&device) == CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  unsigned flags = 0;
  int active = 1;
  CHECK(cuDevicePrimaryCtxGetState(7, &flags, &active) == CUDA_SUCCESS);
  CHECK(active == 0);
  CHECK(cuCtxSetCurrent(reinterpret_cast<CUcontext>(std::uintptr_t{8})) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("rule: the priorities of streams are those of a graph's tasks only where they were asked for") {
  const OnDevice fakes;
  const Stream main(CU_STREAM_NON_BLOCKING, 0);
  const Stream side(CU_STREAM_NON_BLOCKING, -5);
  const Stream other(CU_STREAM_NON_BLOCKING, -2);
  const Event forked;
  const Event joined;
  REQUIRE(cuStreamBeginCapture(main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  main.put([] {});
  CHECK(cuEventRecord(forked, main) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(side, forked, 0) == CUDA_SUCCESS);
  side.put([] {});
  CHECK(cuEventRecord(joined, side) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(main, joined, 0) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(main, &graph) == CUDA_SUCCESS);
  const auto priorities = [&](unsigned long long flags, const Stream& stream) {
    CUgraphExec exec = nullptr;
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, flags) == CUDA_SUCCESS);
    CHECK(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
    return fake::launched_priorities();
  };
  CHECK(priorities(0, main) == std::set<int>{0});
  CHECK(priorities(0, other) == std::set<int>{-2});
  CHECK(priorities(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY, other) == std::set<int>{-5, 0});
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
}

TEST_CASE("rule: machine code runs on its own kind of device, under a driver that knows it") {
  using muster::test::cubin_for;
  const auto judge = [](const std::string& image, int capability, int driver) {
    return fake::judge_image(image, capability, driver);
  };
  CHECK(judge(cubin_for(80), 80, 12020) == CUDA_SUCCESS);
  CHECK(judge(cubin_for(80), 86, 12020) == CUDA_SUCCESS);
  CHECK(judge(cubin_for(86), 80, 12020) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(judge(cubin_for(80), 90, 13000) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(judge(cubin_for(120), 120, 12080) == CUDA_SUCCESS);
  CHECK(judge(cubin_for(120, 7), 120, 12070) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(judge(cubin_for(103), 103, 12090) == CUDA_SUCCESS);
  CHECK(judge(cubin_for(103), 103, 12080) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(judge(cubin_for(90, 8), 90, 13000) == CUDA_SUCCESS);
  CHECK(judge(cubin_for(90, 8), 90, 12070) == CUDA_ERROR_INVALID_IMAGE);
  std::string of_cpu = cubin_for(90);
  of_cpu[18] = 62;
  CHECK(judge(of_cpu, 90, 13000) == CUDA_ERROR_INVALID_IMAGE);
}

TEST_CASE("rule: PTX is for its target and later devices, under a driver that knows its version") {
  using muster::test::ptx_for;
  CHECK(fake::judge_image(ptx_for("8.2", 75), 90, 12020) == CUDA_SUCCESS);
  CHECK(fake::judge_image(ptx_for("8.3", 75), 90, 12020) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  CHECK(fake::judge_image(ptx_for("8.5", 75), 90, 12060) == CUDA_SUCCESS);
  CHECK(fake::judge_image(ptx_for("8.8", 120), 120, 12080) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  CHECK(fake::judge_image(ptx_for("9.0", 120), 121, 13000) == CUDA_SUCCESS);
  CHECK(fake::judge_image(ptx_for("8.2", 90), 80, 13000) == CUDA_ERROR_INVALID_PTX);
  CHECK(fake::judge_image("no PTX", 90, 13000) == CUDA_ERROR_INVALID_IMAGE);
}

TEST_CASE("rule: a module is loaded into a context, and judged") {
  OnDevice fakes;
  CUmodule module = nullptr;
  const std::string code = muster::test::cubin_for(90);
  std::thread([&] { CHECK(cuModuleLoadData(&module, code.data()) == CUDA_ERROR_INVALID_CONTEXT); }).join();
  // As nvcc packs modules for the runtime; four bytes are all that may be looked at.
  const unsigned char fat[] = {0x50, 0xED, 0x55, 0xBA};
  CHECK(cuModuleLoadData(&module, static_cast<const void*>(fat)) == CUDA_ERROR_INVALID_IMAGE);
  CHECK(cuModuleLoadData(&module, muster::test::ptx_for("9.9", 75).c_str()) ==
        CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  fakes.set("FAKE_CUDA_CAPABILITY", "86");
  CHECK(cuModuleLoadData(&module, code.data()) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(module == nullptr);
  CHECK(cuModuleUnload(module) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("the driver knows of what kind memory is, and of memory that is not of CUDA it says nothing") {
  const OnDevice fakes;
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc(&memory, sizeof(int)) == CUDA_SUCCESS);
  void* pinned = nullptr;
  REQUIRE(cuMemHostAlloc(&pinned, sizeof(int), 0) == CUDA_SUCCESS);
  const int pageable = 1;
  const auto type_of = [](CUdeviceptr place) {
    unsigned type = 77;
    bool is_managed = true;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void* values[] = {&type, &is_managed};
    CHECK(cuPointerGetAttributes(2, attributes, values, place) == CUDA_SUCCESS);
    CHECK_FALSE(is_managed);
    attributes[0] = CU_POINTER_ATTRIBUTE_BUFFER_ID;
    CHECK(cuPointerGetAttributes(1, attributes, values, place) == CUDA_ERROR_INVALID_VALUE);
    return type;
  };
  CHECK(type_of(memory) == CU_MEMORYTYPE_DEVICE);
  CHECK(type_of(fake::number_of(pinned)) == CU_MEMORYTYPE_HOST);
  CHECK(type_of(fake::number_of(&pageable)) == 0);
  CHECK(cuMemFreeHost(pinned) == CUDA_SUCCESS);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
}
