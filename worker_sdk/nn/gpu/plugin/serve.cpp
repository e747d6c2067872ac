// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/gpu/plugin/serve.hpp"

#include "muster/error.hpp"
#include "worker_sdk/comm/plugin/border.hpp"

#include <cstdio>
#include <utility>

namespace muster::nn::gpu::detail {
namespace {

constexpr muster::plugin::Words kWords{"no memory of the host is left for a call of the device", ""};

template <typename Body>
std::int32_t guarded(TableError* error, const Body& body) noexcept {
  return muster::plugin::guarded(error, kWords, body);
}

/// The caller's side has an exception of its own to go on with.
void give_up_unless(std::int32_t result) {
  if (result != 0) throw Error(ErrorCode::aborted, "given up");
}

Ops& ops_of(void* ops) {
  return *static_cast<Ops*>(ops);
}

std::int32_t on_side(void* ops, TableWork work, void* context, TableError* error) {
  return guarded(error,
                 [&] { ops_of(ops).on_side([&](void* stream) { give_up_unless(work(context, stream)); }); });
}

std::int32_t capture(void* ops, TableWork work, void* context, void** graph, TableError* error) {
  return guarded(error, [&] {
    *graph = ops_of(ops).capture([&] { give_up_unless(work(context, nullptr)); }).release();
  });
}

}  // namespace

std::int32_t probe(const DeviceMaker& maker, std::int32_t local_rank, char* name, std::int32_t* bf16,
                   TableError* error) {
  return guarded(error, [&] {
    bool native = false;
    const std::string found = maker.probe(local_rank, native);
    *bf16 = native ? 1 : 0;
    (void)std::snprintf(name, kDeviceNameBytes, "%s", found.c_str());
  });
}

std::int32_t open(const DeviceMaker& maker, std::int32_t local_rank, void** ops, TableError* error) {
  return guarded(error, [&] { *ops = maker.open(local_rank).release(); });
}

DeviceTable table_without_maker() {
  DeviceTable table{};
  table.version = kTableVersion;
  table.layout = table_layout();
  table.close = [](void* ops) { delete static_cast<Ops*>(ops); };
  table.allocate = [](void* ops, std::size_t bytes, const char* what, void** memory, TableError* error) {
    return guarded(error, [&] { *memory = ops_of(ops).allocate(bytes, what); });
  };
  table.clear = [](void* ops, void* memory, std::size_t bytes, TableError* error) {
    return guarded(error, [&] { ops_of(ops).clear(memory, bytes); });
  };
  table.to_device = [](void* ops, void* to, const void* from, std::size_t bytes, TableError* error) {
    return guarded(error, [&] { ops_of(ops).to_device(to, from, bytes); });
  };
  table.from_device = [](void* ops, void* to, const void* from, std::size_t bytes, TableError* error) {
    return guarded(error, [&] { ops_of(ops).from_device(to, from, bytes); });
  };
  table.convolve = [](void* ops, const ConvolutionCall* call, TableError* error) {
    return guarded(error, [&] { ops_of(ops).convolve(*call); });
  };
  table.multiply = [](void* ops, const MultiplyCall* call, TableError* error) {
    return guarded(error, [&] { ops_of(ops).multiply(*call); });
  };
  table.run = [](void* ops, std::uint32_t number, const void* kernel, const Grid* grid, TableError* error) {
    return guarded(error, [&] { ops_of(ops).launch(static_cast<KernelNumber>(number), kernel, *grid); });
  };
  table.on_side = on_side;
  table.join_side = [](void* ops, TableError* error) {
    return guarded(error, [&] { ops_of(ops).join_side(); });
  };
  table.capture = capture;
  table.launch = [](void* graph, TableError* error) {
    return guarded(error, [&] { static_cast<Graph*>(graph)->launch(); });
  };
  table.free_graph = [](void* graph) { delete static_cast<Graph*>(graph); };
  table.synchronize = [](void* ops, TableError* error) {
    return guarded(error, [&] { ops_of(ops).synchronize(); });
  };
  table.mark = [](void* ops, std::size_t number, TableError* error) {
    return guarded(error, [&] { ops_of(ops).mark(number); });
  };
  table.between = [](void* ops, std::size_t from, std::size_t to, std::int64_t* nanoseconds,
                     TableError* error) {
    return guarded(error, [&] { *nanoseconds = ops_of(ops).between(from, to).count(); });
  };
  table.require_working = [](void* ops, TableError* error) {
    return guarded(error, [&] { ops_of(ops).require_working(); });
  };
  table.take_note = [](void* ops, char* note, TableError* error) {
    return guarded(error,
                   [&] { (void)std::snprintf(note, kNoteBytes, "%s", ops_of(ops).take_note().c_str()); });
  };
  table.stream = [](void* ops) { return ops_of(ops).stream(); };
  table.allocated = [](void* ops) { return ops_of(ops).allocated(); };
  table.free_bytes = [](void* ops) { return ops_of(ops).free_bytes(); };
  return table;
}

}  // namespace muster::nn::gpu::detail
