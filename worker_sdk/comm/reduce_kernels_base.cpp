// SPDX-License-Identifier: Apache-2.0
// The loops that every processor can run.
#define MUSTER_KERNEL gnu::hot
#define MUSTER_VECTOR_BYTES 16
#include "worker_sdk/comm/reduce_loops.hpp"

namespace muster::kernels {
namespace {

constexpr Table kTable = make_table(half_row<OneByOne<Half>, OneByOne<Half>, OneByOne<float>>(),
                                    half_row<OneByOne<BFloat16>, OneByOne<BFloat16>, OneByOne<float>>());

}  // namespace

const Table* base_table() {
  return &kTable;
}

}  // namespace muster::kernels
