// SPDX-License-Identifier: Apache-2.0
// A CUDA driver without a GPU, for tests. It has libcuda's soname and functions (compiled against the real
// header), and checks what the real one only punishes. It is as strict as the real one about contexts:
// nothing can be called before cuInit(), and nothing but cuDevicePrimaryCtxRetain() makes a context.
//
// Device memory is mapped twice: where the program knows it nobody can touch it, as a program cannot touch
// the memory of a GPU; the fakes use the other mapping. Kernels run in a process of their own for each device
// (device/), which has the memory of that device, and nothing else of the program, at the same addresses. It
// starts with the first module of kernels and ends when its socket does. A stream is a queue with a thread.
//
// What it is told by the environment, which it reads at each call:
//   FAKE_GPU_DIR           a private folder: rules that were broken are written to "violations" there
//   FAKE_CUDA_DEVICES      how many GPUs there are (8), or "mismatch": the library is of another version than
//                          the driver in the kernel, which cuInit() says. It has an error for 0, too
//   FAKE_CUDA_DRIVER       the newest CUDA that the driver knows (13000): cuDriverGetVersion() says it, and
//                          modules are judged by it (image.cpp)
//   FAKE_CUDA_CAPABILITY   compute capability (90)
//   FAKE_CUDA_MEMORY       bytes of each device (16 GiB)
//   FAKE_CUDA_FAULT        ERROR@PLACE#NUMBER:DEVICE: the NUMBERth kernel of that name
//                          ("muster_cross_entropy"), begin or end of a capture ("capture", "end of capture"),
//                          or instantiation of a graph ("graph"), of the device fails.
//                          CUDA_ERROR_OUT_OF_MEMORY (2) is what the call gives; with any other number the
//                          device is lost when it comes to it
//   FAKE_CUDA_SEED         a number: every other queue is delayed at random, which of them depends on it
// The rest is what the fakes of NCCL and cuDNN use besides.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <set>
#include <string>

#define FAKE_EXPORT __attribute__((visibility("default")))

extern "C" {

/// Where the fakes reach what the program knows as `device_pointer`; other memory is what it is.
FAKE_EXPORT void* fake_cuda_host_view(const void* device_pointer);

/// Graphs and instantiated graphs of this process that were not destroyed.
FAKE_EXPORT int fake_cuda_live_graphs();

}  // extern "C"

namespace fake {

/// What the driver takes for an address, and back.
inline CUdeviceptr number_of(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

inline void* address_of(CUdeviceptr memory) {
  return reinterpret_cast<void*>(memory);
}

/// What a device that is lost answers to everything.
FAKE_EXPORT CUresult trouble(int device);

/// Notes a broken rule; `rule` is its name, followed by where it is written.
FAKE_EXPORT void violate(const char* rule, const std::string& what);

/// Whether all of [memory, memory + bytes) was handed out and not freed.
FAKE_EXPORT bool is_device_memory(const void* memory, std::size_t bytes);
/// Whose memory it is, or -1.
FAKE_EXPORT int device_of(const void* memory);
FAKE_EXPORT std::byte* view(const void* memory);

using Work = std::function<void()>;
/// Called when the task gets its place: at once, or at each launch of the graph that it was captured in.
using Task = std::function<Work()>;

/// Puts a task on a stream, or into the graph that is being captured from it. `tag`: see live_graphs().
FAKE_EXPORT void enqueue(CUstream stream, Task task, const void* tag = nullptr);
/// The device of a stream, or -1 if there is no such stream, or no context of the calling thread.
FAKE_EXPORT int device_of(CUstream stream);

/// Graphs, instantiated or not, that hold a task with this tag.
FAKE_EXPORT int live_graphs(const void* tag);

/// The priorities with which the tasks of the graph ran that was launched last in this process: those of the
/// streams that they were captured from, or that of the stream of the launch alone.
FAKE_EXPORT std::set<int> launched_priorities();

/// For calls that must not be made while a graph is captured: whether one is now spoilt, which is noted.
FAKE_EXPORT bool breaks_capture(const char* function);

/// The device whose context is current on the calling thread, or -1 if none is.
FAKE_EXPORT int current_device();
FAKE_EXPORT std::string bus_id(int device);
/// FAKE_GPU_DIR, which must be set.
FAKE_EXPORT std::string folder();

struct Request;  // device/protocol.hpp
struct Answer;
/// Starts the process of a device unless it runs.
FAKE_EXPORT CUresult start_device(int device);
/// The id of that process, or -1 if it was not started.
FAKE_EXPORT int process_of(int device);
/// Has the process of a device do something, and waits for it. Once that failed, the device is lost.
FAKE_EXPORT CUresult ask_device(int device, const Request& request);
FAKE_EXPORT CUresult ask_device(int device, const Request& request, Answer& answer);

}  // namespace fake
