// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/reduce.hpp"

#include "worker_sdk/comm/reduce_kernels.hpp"

namespace muster {
namespace {

const kernels::Table& best() {
  static const kernels::Table& table = *kernels::sets().front().table;
  return table;
}

}  // namespace

void reduce(std::span<const std::byte* const> sources, std::span<std::byte* const> results, std::size_t count,
            DataType type, ReduceOp op) {
  kernels::reduce(best(), sources, results, count, type, op);
}

void reduce_partly(std::span<const std::byte* const> sources, std::byte* partial, std::size_t count,
                   DataType type, ReduceOp op) {
  kernels::reduce_partly(best(), sources, partial, count, type, op);
}

void finish(const std::byte* partial, std::byte* result, std::size_t count, DataType type, ReduceOp op,
            int ranks) {
  kernels::finish(best(), partial, result, count, type, op, ranks);
}

}  // namespace muster
