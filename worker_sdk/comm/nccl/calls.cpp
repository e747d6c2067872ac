// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/calls.hpp"

#include "muster/error.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace muster::nccl {
namespace {

ncclDataType_t type_of(DataType type) {
  switch (type) {
    case DataType::u8:
      return ncclUint8;
    case DataType::i32:
      return ncclInt32;
    case DataType::i64:
      return ncclInt64;
    case DataType::f16:
      return ncclFloat16;
    case DataType::bf16:
      return ncclBfloat16;
    case DataType::f32:
      return ncclFloat32;
    case DataType::f64:
      return ncclFloat64;
  }
  return ncclUint8;
}

ncclRedOp_t op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::product:
      return ncclProd;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::avg:
      return ncclAvg;
    default:
      return ncclSum;
  }
}

/// One rank's sends and receives, until the first that NCCL refuses.
class Messages {
 public:
  Messages(const Library& api, ncclComm_t comm, const DeviceCall& call)
      : api_(api), comm_(comm), call_(call) {}

  void send(const std::byte* data, std::uint64_t count, int peer) {
    if (count == 0 || failed()) return;
    result_ = api_.ncclSend(data, count, type_of(call_.call.type), peer, comm_, call_.stream);
  }

  void receive(std::byte* data, std::uint64_t count, int peer) {
    if (count == 0 || failed()) return;
    result_ = api_.ncclRecv(data, count, type_of(call_.call.type), peer, comm_, call_.stream);
  }

  ncclResult_t result() const { return result_; }

 private:
  bool failed() const { return result_ != ncclSuccess && result_ != ncclInProgress; }

  const Library& api_;
  ncclComm_t comm_;
  const DeviceCall& call_;
  ncclResult_t result_ = ncclSuccess;
};

const std::byte* from(const DeviceCall& call, std::uint64_t element) {
  return static_cast<const std::byte*>(call.in) + element * size_of(call.call.type);
}

std::byte* to(const DeviceCall& call, std::uint64_t element) {
  return static_cast<std::byte*>(call.out) + element * size_of(call.call.type);
}

ncclResult_t all_gather_v(Messages messages, const DeviceCall& call, Place place) {
  std::uint64_t before = 0;
  for (int peer = 0; peer < place.size; ++peer) {
    const std::uint64_t count = call.counts[static_cast<std::size_t>(peer)];
    messages.send(from(call, 0), call.counts[static_cast<std::size_t>(place.rank)], peer);
    messages.receive(to(call, before), count, peer);
    before += count;
  }
  return messages.result();
}

ncclResult_t gather(Messages messages, const DeviceCall& call, Place place) {
  const std::uint64_t count = call.call.count;
  messages.send(from(call, 0), count, call.call.root);
  for (int peer = 0; place.rank == call.call.root && peer < place.size; ++peer)
    messages.receive(to(call, static_cast<std::uint64_t>(peer) * count), count, peer);
  return messages.result();
}

ncclResult_t scatter(Messages messages, const DeviceCall& call, Place place) {
  const std::uint64_t count = call.call.count;
  for (int peer = 0; place.rank == call.call.root && peer < place.size; ++peer)
    messages.send(from(call, static_cast<std::uint64_t>(peer) * count), count, peer);
  messages.receive(to(call, 0), count, call.call.root);
  return messages.result();
}

ncclResult_t all_to_all(Messages messages, const DeviceCall& call, Place place) {
  const std::uint64_t count = call.call.count;
  for (int peer = 0; peer < place.size; ++peer) {
    messages.send(from(call, static_cast<std::uint64_t>(peer) * count), count, peer);
    messages.receive(to(call, static_cast<std::uint64_t>(peer) * count), count, peer);
  }
  return messages.result();
}

}  // namespace

Call call_of(const muster_plugin_operation& operation) {
  Call call;
  call.sequence = operation.sequence;
  call.count = operation.count;
  call.signature = operation.signature;
  call.root = operation.root;
  call.tag = operation.tag;
  call.collective = static_cast<Collective>(operation.collective);
  call.type = static_cast<DataType>(operation.type);
  call.op = static_cast<ReduceOp>(operation.op);
  return call;
}

std::size_t bytes_in(const Call& call, std::span<const std::uint64_t> counts, Place place) {
  const std::size_t part = static_cast<std::size_t>(call.count) * size_of(call.type);
  const auto ranks = static_cast<std::size_t>(place.size);
  switch (call.collective) {
    case Collective::barrier:
    case Collective::recv:
    case Collective::allocate:
      return 0;
    case Collective::broadcast:
      return place.rank == call.root ? part : 0;
    case Collective::scatter:
      return place.rank == call.root ? part * ranks : 0;
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return part * ranks;
    case Collective::all_gather_v:
      return static_cast<std::size_t>(counts[static_cast<std::size_t>(place.rank)]) * size_of(call.type);
    default:
      return part;
  }
}

std::size_t bytes_out(const Call& call, std::span<const std::uint64_t>, Place place) {
  const std::size_t part = static_cast<std::size_t>(call.count) * size_of(call.type);
  const auto ranks = static_cast<std::size_t>(place.size);
  switch (call.collective) {
    case Collective::barrier:
    case Collective::send:
    case Collective::allocate:
      return 0;
    case Collective::reduce:
      return place.rank == call.root ? part : 0;
    case Collective::gather:
      return place.rank == call.root ? part * ranks : 0;
    case Collective::all_gather:
    case Collective::all_to_all:
      return part * ranks;
    default:
      return part;
  }
}

void check_supported(const Call& call) {
  if (is_reduction(call.collective) && is_bitwise(call.op))
    throw Error(ErrorCode::unsupported, describe(call) + ": NCCL has no " + std::string(name_of(call.op)) +
                                            "; use a group with the backend shm or gloo for it");
}

ncclResult_t issue(const Library& api, ncclComm_t comm, const DeviceCall& call, Place place, void* word) {
  const auto count = static_cast<std::size_t>(call.call.count);
  const ncclDataType_t type = type_of(call.call.type);
  const ncclRedOp_t op = op_of(call.call.op);
  const Messages messages(api, comm, call);
  const int root = call.call.root;
  if (call.call.collective == Collective::barrier)
    return api.ncclAllReduce(word, word, 1, ncclInt32, ncclSum, comm, call.stream);
  if (count == 0) return ncclSuccess;
  switch (call.call.collective) {
    case Collective::broadcast:
      return api.ncclBroadcast(place.rank == root ? call.in : call.out, call.out, count, type, root, comm,
                               call.stream);
    case Collective::all_reduce:
      return api.ncclAllReduce(call.in, call.out, count, type, op, comm, call.stream);
    case Collective::reduce:
      return api.ncclReduce(call.in, call.out, count, type, op, root, comm, call.stream);
    case Collective::all_gather:
      return api.ncclAllGather(call.in, call.out, count, type, comm, call.stream);
    case Collective::reduce_scatter:
      return api.ncclReduceScatter(call.in, call.out, count, type, op, comm, call.stream);
    case Collective::all_gather_v:
      return all_gather_v(messages, call, place);
    case Collective::gather:
      if (api.ncclGather == nullptr) return gather(messages, call, place);
      return api.ncclGather(call.in, call.out, count, type, root, comm, call.stream);
    case Collective::scatter:
      if (api.ncclScatter == nullptr) return scatter(messages, call, place);
      return api.ncclScatter(call.in, call.out, count, type, root, comm, call.stream);
    case Collective::all_to_all:
      if (api.ncclAlltoAll == nullptr) return all_to_all(messages, call, place);
      return api.ncclAlltoAll(call.in, call.out, count, type, comm, call.stream);
    case Collective::send:
      return api.ncclSend(call.in, count, type, root, comm, call.stream);
    case Collective::recv:
      return api.ncclRecv(call.out, count, type, root, comm, call.stream);
    default:
      return ncclInvalidArgument;
  }
}

std::vector<std::vector<DeviceCall>> groups_of(std::vector<DeviceCall> batch) {
  std::vector<std::vector<DeviceCall>> groups;
  std::vector<DeviceCall> messages;
  for (DeviceCall& call : batch) {
    if (is_point_to_point(call.call.collective))
      messages.push_back(call);
    else
      groups.push_back({call});
  }
  std::stable_sort(messages.begin(), messages.end(), [](const DeviceCall& a, const DeviceCall& b) {
    return std::pair(a.call.root, a.call.tag) < std::pair(b.call.root, b.call.tag);
  });
  if (!messages.empty()) groups.push_back(std::move(messages));
  return groups;
}

}  // namespace muster::nccl
