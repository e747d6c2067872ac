// SPDX-License-Identifier: Apache-2.0
// The table between the SDK and a device in a shared object of its own (libmuster_cuda.so). Plain functions
// and data: neither side's C++ symbols or exceptions are seen by the other, and a program that trains on a
// GPU links nothing of it. Both come from one build: `version` and `layout` must be equal.
#pragma once

#include "rendezvous/base/fnv1a.hpp"
#include "worker_sdk/comm/plugin/table.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::nn::gpu {

inline constexpr std::uint32_t kTableVersion = 5;
/// Name of the one exported function, of type TableEntry.
inline constexpr const char* kTableEntry = "muster_device_entry";
/// Bytes for the name of a device, the final 0 included.
inline constexpr std::size_t kDeviceNameBytes = 128;
/// The same for a note.
inline constexpr std::size_t kNoteBytes = 512;

/// Changes with the number, order and size of what crosses as bytes.
constexpr std::uint64_t table_layout() {
  std::uint64_t hash = kFnvStart;
  for (const std::size_t size : {
#define MUSTER_GPU_SIZE(Kernel, name) sizeof(Kernel),
           MUSTER_GPU_KERNELS(MUSTER_GPU_SIZE)
#undef MUSTER_GPU_SIZE
               sizeof(ConvolutionCall),
           sizeof(MultiplyCall), sizeof(Grid)})
    hash = fnv1a_step(hash, size);
  return hash;
}

using TableError = muster_plugin_error;
/// Work that the other side calls back. A result that is not 0 means: give up; what happened stays on the
/// caller's side.
using TableWork = std::int32_t (*)(void* context, void* stream);

/// The functions of Ops. Each gives 0, or an ErrorCode with the text in `error`.
struct DeviceTable {
  std::uint32_t version;
  std::uint64_t layout;
  /// Whether open() can be expected to work: driver, device, libraries. `name` gets the device's, `bf16`
  /// whether it computes in bf16 natively.
  std::int32_t (*probe)(std::int32_t local_rank, char* name, std::int32_t* bf16, TableError* error);
  /// Opens the device of a local rank.
  std::int32_t (*open)(std::int32_t local_rank, void** ops, TableError* error);
  void (*close)(void* ops);
  std::int32_t (*allocate)(void* ops, std::size_t bytes, const char* what, void** memory, TableError* error);
  std::int32_t (*clear)(void* ops, void* memory, std::size_t bytes, TableError* error);
  std::int32_t (*to_device)(void* ops, void* to, const void* from, std::size_t bytes, TableError* error);
  std::int32_t (*from_device)(void* ops, void* to, const void* from, std::size_t bytes, TableError* error);
  std::int32_t (*convolve)(void* ops, const ConvolutionCall* call, TableError* error);
  std::int32_t (*multiply)(void* ops, const MultiplyCall* call, TableError* error);
  std::int32_t (*run)(void* ops, std::uint32_t number, const void* kernel, const Grid* grid,
                      TableError* error);
  std::int32_t (*on_side)(void* ops, TableWork work, void* context, TableError* error);
  std::int32_t (*join_side)(void* ops, TableError* error);
  std::int32_t (*capture)(void* ops, TableWork work, void* context, void** graph, TableError* error);
  std::int32_t (*launch)(void* graph, TableError* error);
  void (*free_graph)(void* graph);
  std::int32_t (*synchronize)(void* ops, TableError* error);
  std::int32_t (*mark)(void* ops, std::size_t number, TableError* error);
  std::int32_t (*between)(void* ops, std::size_t from, std::size_t to, std::int64_t* nanoseconds,
                          TableError* error);
  std::int32_t (*require_working)(void* ops, TableError* error);
  std::int32_t (*take_note)(void* ops, char* note, TableError* error);
  void* (*stream)(void* ops);
  std::size_t (*allocated)(void* ops);
  std::size_t (*free_bytes)(void* ops);
};

using TableEntry = const DeviceTable* (*)();

}  // namespace muster::nn::gpu
