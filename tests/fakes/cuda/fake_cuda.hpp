// SPDX-License-Identifier: Apache-2.0
// A CUDA runtime without a GPU, for tests: device memory is memory of this process that only the fakes can
// touch, and a stream is a thread that works off its tasks. It has libcudart's soname and functions (compiled
// against the real headers), and checks what the real one only punishes. What it is told by the environment:
//   FAKE_GPU_DIR       a private folder: rules that were broken are written to "violations" there
//   FAKE_CUDA_DEVICES  how many GPUs there are (default 8), or "nodriver"
//   FAKE_CUDA_OPEN_MEMORY  set: the program can touch device memory, as kernels that a test runs here do
// This is what the fake of NCCL uses besides.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>

#define FAKE_EXPORT __attribute__((visibility("default")))

namespace fake {

/// Notes a broken rule; `rule` is its name, followed by where it is written.
FAKE_EXPORT void violate(const char* rule, const std::string& what);

/// Whether all of [memory, memory + bytes) was handed out and not freed.
FAKE_EXPORT bool is_device_memory(const void* memory, std::size_t bytes);

/// Where the fakes reach what the program knows as `memory`; other memory than the device's is what it is.
FAKE_EXPORT std::byte* view(const void* memory);

using Work = std::function<void()>;
/// Called when the task gets its place: at once, or at each launch of the graph that it was captured in.
using Task = std::function<Work()>;

/// Puts a task on a stream, or into the graph that is being captured from it.
FAKE_EXPORT void enqueue(cudaStream_t stream, Task task);

FAKE_EXPORT int current_device();
FAKE_EXPORT std::string bus_id(int device);
/// FAKE_GPU_DIR, which must be set.
FAKE_EXPORT std::string folder();

}  // namespace fake
