// SPDX-License-Identifier: Apache-2.0
#include "muster/abi/collectives.h"

#include "worker_sdk/abi/failure.hpp"
#include "worker_sdk/abi/nodes.hpp"
#include "worker_sdk/abi/options.hpp"

#include <utility>

namespace muster::abi {
namespace {

/// Makes an operation from the arguments that all calls have.
Operation operation_of(Collective collective, const void* in, void* out, std::uint64_t count,
                       muster_dtype dtype, void* stream) {
  if (dtype < MUSTER_U8 || dtype > MUSTER_F64)
    throw Error(ErrorCode::invalid_argument, std::string(name_of(collective)) + ": " + std::to_string(dtype) +
                                                 " is no element type; use MUSTER_U8 to MUSTER_F64");
  Operation operation = muster::operation_of(collective, count, static_cast<DataType>(dtype), in, out);
  operation.stream = stream;
  return operation;
}

ReduceOp reduce_op_of(Collective collective, muster_op op) {
  if (op < MUSTER_SUM || op > MUSTER_BXOR)
    throw Error(ErrorCode::invalid_argument, std::string(name_of(collective)) + ": " + std::to_string(op) +
                                                 " is no operation; use MUSTER_SUM to MUSTER_BXOR");
  return static_cast<ReduceOp>(op);
}

void give_out(GroupNode& node, std::shared_ptr<Work> started, muster_work** work) {
  *work = handle_of<muster_work>(make_node<WorkNode>(node, std::move(started)));
}

/// Keeps a call for the end of the batch, with a copy of its counts.
void collect(GroupNode& node, Operation operation, muster_work** work) {
  if (work != nullptr)
    throw Error(ErrorCode::state,
                "a call in a batch has no work of its own; give NULL, and take that of "
                "muster_batch_end()");
  check_operation(operation, node.group.rank(), node.group.size());
  if (operation.counts != nullptr) {
    node.counts.emplace_back(operation.counts, operation.counts + node.group.size());
    operation.counts = node.counts.back().data();
  }
  node.batch.push_back(operation);
}

/// Runs, starts or collects a call.
void issue(GroupNode& node, const Operation& operation, muster_work** work) {
  if (node.collecting) return collect(node, operation, work);
  watching(node, [&] {
    if (work == nullptr)
      node.group.run(operation);
    else
      give_out(node, node.group.start({operation}), work);
  });
}

/// Runs one collective function of the C interface: `make` gives the operation for the group.
template <class Make>
muster_rc collective(const char* call, muster_group* group, muster_work** work, Make&& make) {
  if (work != nullptr) *work = nullptr;
  return guarded(call, group, [&] {
    GroupNode& node = open<GroupNode>(group);
    issue(node, make(node), work);
  });
}

Operation rooted(Operation operation, std::int32_t root) {
  operation.call.root = root;
  return operation;
}

Operation reducing(Operation operation, muster_op op) {
  operation.call.op = reduce_op_of(operation.call.collective, op);
  return operation;
}

Operation tagged(Operation operation, std::int32_t peer, std::int32_t tag) {
  operation.call.root = peer;
  operation.call.tag = tag;
  return operation;
}

/// Runs `body` as watching() does, but a wait that ended before its call did is no failure of the group.
template <class Body>
void watching_work(WorkNode& node, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (!leaves_group_alive(error.code()) && error.code() != ErrorCode::deadline) node.group.failed = true;
    throw;
  }
}

void close_batch(GroupNode& node) {
  node.collecting = false;
  node.batch.clear();
  node.counts.clear();
}

void require_batch(const GroupNode& node) {
  if (!node.collecting)
    throw Error(ErrorCode::state,
                "no batch is open on the group '" + node.group.name() + "'; call muster_batch_begin() first");
}

}  // namespace
}  // namespace muster::abi

using namespace muster::abi;
using muster::Collective;

extern "C" {

muster_rc muster_barrier(muster_group* group, void* stream, muster_work** work) {
  return collective(__func__, group, work, [&](GroupNode&) {
    return operation_of(Collective::barrier, nullptr, nullptr, 0, MUSTER_U8, stream);
  });
}

muster_rc muster_broadcast(muster_group* group, void* buffer, uint64_t count, muster_dtype dtype,
                           int32_t root, void* stream, muster_work** work) {
  return collective(__func__, group, work, [&](GroupNode&) {
    return rooted(operation_of(Collective::broadcast, buffer, buffer, count, dtype, stream), root);
  });
}

muster_rc muster_all_reduce(muster_group* group, const void* in, void* out, uint64_t count,
                            muster_dtype dtype, muster_op op, void* stream, muster_work** work) {
  return collective(__func__, group, work, [&](GroupNode&) {
    return reducing(operation_of(Collective::all_reduce, in, out, count, dtype, stream), op);
  });
}

muster_rc muster_reduce(muster_group* group, const void* in, void* out, uint64_t count, muster_dtype dtype,
                        muster_op op, int32_t root, void* stream, muster_work** work) {
  return collective(__func__, group, work, [&](GroupNode&) {
    return rooted(reducing(operation_of(Collective::reduce, in, out, count, dtype, stream), op), root);
  });
}

muster_rc muster_all_gather(muster_group* group, const void* in, void* out, uint64_t count,
                            muster_dtype dtype, void* stream, muster_work** work) {
  return collective(__func__, group, work, [&](GroupNode&) {
    return operation_of(Collective::all_gather, in, out, count, dtype, stream);
  });
}

muster_rc muster_all_gather_v(muster_group* group, const void* in, void* out, const uint64_t* counts,
                              muster_dtype dtype, void* stream, muster_work** work) {
  return collective(__func__, group, work, [&](GroupNode&) {
    require(counts, "the list of counts");
    muster::Operation operation = operation_of(Collective::all_gather_v, in, out, 0, dtype, stream);
    operation.counts = counts;
    return operation;
  });
}

muster_rc muster_gather(muster_group* group, const void* in, void* out, uint64_t count, muster_dtype dtype,
                        int32_t root, void* stream, muster_work** work) {
  return collective(__func__, group, work, [&](GroupNode&) {
    return rooted(operation_of(Collective::gather, in, out, count, dtype, stream), root);
  });
}

muster_rc muster_scatter(muster_group* group, const void* in, void* out, uint64_t count, muster_dtype dtype,
                         int32_t root, void* stream, muster_work** work) {
  return collective(__func__, group, work, [&](GroupNode&) {
    return rooted(operation_of(Collective::scatter, in, out, count, dtype, stream), root);
  });
}

muster_rc muster_reduce_scatter(muster_group* group, const void* in, void* out, uint64_t count,
                                muster_dtype dtype, muster_op op, void* stream, muster_work** work) {
  return collective(__func__, group, work, [&](GroupNode&) {
    return reducing(operation_of(Collective::reduce_scatter, in, out, count, dtype, stream), op);
  });
}

muster_rc muster_all_to_all(muster_group* group, const void* in, void* out, uint64_t count,
                            muster_dtype dtype, void* stream, muster_work** work) {
  return collective(__func__, group, work, [&](GroupNode&) {
    return operation_of(Collective::all_to_all, in, out, count, dtype, stream);
  });
}

muster_rc muster_send(muster_group* group, const void* in, uint64_t count, muster_dtype dtype, int32_t peer,
                      int32_t tag, void* stream, muster_work** work) {
  return collective(__func__, group, work, [&](GroupNode&) {
    return tagged(operation_of(Collective::send, in, nullptr, count, dtype, stream), peer, tag);
  });
}

muster_rc muster_recv(muster_group* group, void* out, uint64_t count, muster_dtype dtype, int32_t peer,
                      int32_t tag, void* stream, muster_work** work) {
  return collective(__func__, group, work, [&](GroupNode&) {
    return tagged(operation_of(Collective::recv, nullptr, out, count, dtype, stream), peer, tag);
  });
}

muster_rc muster_batch_begin(muster_group* group) {
  return with_node<GroupNode>(__func__, group, [&](GroupNode& node) {
    if (node.collecting)
      throw muster::Error(muster::ErrorCode::state, "a batch is already open on the group '" +
                                                        node.group.name() + "'; batches do not nest");
    node.collecting = true;
  });
}

muster_rc muster_batch_end(muster_group* group, muster_work** work) {
  if (work != nullptr) *work = nullptr;
  return with_node<GroupNode>(__func__, group, [&](GroupNode& node) {
    require_batch(node);
    auto batch = std::move(node.batch);
    const auto counts = std::move(node.counts);
    close_batch(node);
    watching(node, [&] {
      if (work == nullptr)
        node.group.run(std::move(batch));
      else
        give_out(node, node.group.start(std::move(batch)), work);
    });
  });
}

muster_rc muster_batch_cancel(muster_group* group) {
  return with_node<GroupNode>(__func__, group, [&](GroupNode& node) {
    require_batch(node);
    close_batch(node);
  });
}

muster_rc muster_wait(muster_work* work, int64_t deadline_ms) {
  return with_node<WorkNode>(__func__, work, [&](WorkNode& node) {
    const auto limit = read_deadline(deadline_ms, std::chrono::milliseconds(0));
    watching_work(node, [&] { node.work->wait(deadline_ms == 0 ? std::nullopt : std::optional(limit)); });
  });
}

muster_rc muster_test(muster_work* work, int32_t* done) {
  return with_node<WorkNode>(__func__, work, [&](WorkNode& node) {
    require(done, "the place for the answer");
    watching_work(node, [&] { *done = node.work->test() ? 1 : 0; });
  });
}

muster_rc muster_work_free(muster_work* work) {
  if (work == nullptr) return MUSTER_OK;
  return guarded(__func__, work, [&] { Node::release(&open<WorkNode>(work)); });
}
}
