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

/// Issues the sends and receives of one rank, until NCCL refuses one.
class Messages {
 public:
  Messages(const Library& api, ncclComm_t comm, const Operation& operation)
      : api_(api), comm_(comm), operation_(operation) {}

  void send(const std::byte* data, std::uint64_t count, int peer) {
    if (count == 0 || failed()) return;
    result_ = api_.ncclSend(data, count, type_of(operation_.call.type), peer, comm_, stream_of(operation_));
  }

  void receive(std::byte* data, std::uint64_t count, int peer) {
    if (count == 0 || failed()) return;
    result_ = api_.ncclRecv(data, count, type_of(operation_.call.type), peer, comm_, stream_of(operation_));
  }

  ncclResult_t result() const { return result_; }

 private:
  bool failed() const { return result_ != ncclSuccess && result_ != ncclInProgress; }

  const Library& api_;
  ncclComm_t comm_;
  const Operation& operation_;
  ncclResult_t result_ = ncclSuccess;
};

const std::byte* from(const Operation& operation, std::uint64_t element) {
  return static_cast<const std::byte*>(operation.in) + element * size_of(operation.call.type);
}

std::byte* to(const Operation& operation, std::uint64_t element) {
  return static_cast<std::byte*>(operation.out) + element * size_of(operation.call.type);
}

ncclResult_t all_gather_v(Messages messages, const Operation& operation, Place place) {
  std::uint64_t before = 0;
  for (int peer = 0; peer < place.size; ++peer) {
    const std::uint64_t count = operation.counts[peer];
    messages.send(from(operation, 0), operation.counts[place.rank], peer);
    messages.receive(to(operation, before), count, peer);
    before += count;
  }
  return messages.result();
}

ncclResult_t gather(Messages messages, const Operation& operation, Place place) {
  const std::uint64_t count = operation.call.count;
  messages.send(from(operation, 0), count, operation.call.root);
  for (int peer = 0; place.rank == operation.call.root && peer < place.size; ++peer)
    messages.receive(to(operation, static_cast<std::uint64_t>(peer) * count), count, peer);
  return messages.result();
}

ncclResult_t scatter(Messages messages, const Operation& operation, Place place) {
  const std::uint64_t count = operation.call.count;
  for (int peer = 0; place.rank == operation.call.root && peer < place.size; ++peer)
    messages.send(from(operation, static_cast<std::uint64_t>(peer) * count), count, peer);
  messages.receive(to(operation, 0), count, operation.call.root);
  return messages.result();
}

ncclResult_t all_to_all(Messages messages, const Operation& operation, Place place) {
  const std::uint64_t count = operation.call.count;
  for (int peer = 0; peer < place.size; ++peer) {
    messages.send(from(operation, static_cast<std::uint64_t>(peer) * count), count, peer);
    messages.receive(to(operation, static_cast<std::uint64_t>(peer) * count), count, peer);
  }
  return messages.result();
}

}  // namespace

void check_supported(const Call& call) {
  if (is_reduction(call.collective) && is_bitwise(call.op))
    throw Error(ErrorCode::unsupported, describe(call) + ": NCCL has no " + std::string(name_of(call.op)) +
                                            "; use a group with the backend shm or gloo for it");
}

ncclResult_t issue(const Library& api, ncclComm_t comm, const Operation& operation, Place place, void* word) {
  const auto count = static_cast<std::size_t>(operation.call.count);
  const ncclDataType_t type = type_of(operation.call.type);
  const ncclRedOp_t op = op_of(operation.call.op);
  const Messages messages(api, comm, operation);
  const int root = operation.call.root;
  const void* const in = operation.in;
  void* const out = operation.out;
  const cudaStream_t stream = stream_of(operation);
  if (operation.call.collective == Collective::barrier)
    return api.ncclAllReduce(word, word, 1, ncclInt32, ncclSum, comm, stream);
  if (count == 0) return ncclSuccess;
  switch (operation.call.collective) {
    case Collective::broadcast:
      return api.ncclBroadcast(place.rank == root ? in : out, out, count, type, root, comm, stream);
    case Collective::all_reduce:
      return api.ncclAllReduce(in, out, count, type, op, comm, stream);
    case Collective::reduce:
      return api.ncclReduce(in, out, count, type, op, root, comm, stream);
    case Collective::all_gather:
      return api.ncclAllGather(in, out, count, type, comm, stream);
    case Collective::reduce_scatter:
      return api.ncclReduceScatter(in, out, count, type, op, comm, stream);
    case Collective::all_gather_v:
      return all_gather_v(messages, operation, place);
    case Collective::gather:
      if (api.ncclGather == nullptr) return gather(messages, operation, place);
      return api.ncclGather(in, out, count, type, root, comm, stream);
    case Collective::scatter:
      if (api.ncclScatter == nullptr) return scatter(messages, operation, place);
      return api.ncclScatter(in, out, count, type, root, comm, stream);
    case Collective::all_to_all:
      if (api.ncclAlltoAll == nullptr) return all_to_all(messages, operation, place);
      return api.ncclAlltoAll(in, out, count, type, comm, stream);
    case Collective::send:
      return api.ncclSend(in, count, type, root, comm, stream);
    case Collective::recv:
      return api.ncclRecv(out, count, type, root, comm, stream);
    default:
      return ncclInvalidArgument;
  }
}

std::vector<std::vector<Operation>> groups_of(std::span<const Operation> batch) {
  std::vector<std::vector<Operation>> groups;
  std::vector<Operation> messages;
  for (const Operation& operation : batch) {
    if (is_point_to_point(operation.call.collective))
      messages.push_back(operation);
    else
      groups.push_back({operation});
  }
  std::stable_sort(messages.begin(), messages.end(), [](const Operation& a, const Operation& b) {
    return std::pair(a.call.root, a.call.tag) < std::pair(b.call.root, b.call.tag);
  });
  if (!messages.empty()) groups.push_back(std::move(messages));
  return groups;
}

}  // namespace muster::nccl
