// SPDX-License-Identifier: Apache-2.0
// The loops of reduce.hpp, once for each instruction set. Internal, but used by tests and benchmarks.
#pragma once

#include "muster/types.hpp"

#include <array>
#include <cstddef>
#include <span>

namespace muster::kernels {

/// Combines `count` elements of `sources`, in their order, divides by `divisor` if the loop is one of avg,
/// and writes to all of `results`. A result may be the very memory of a source whose elements are not
/// narrower.
using Loop = void (*)(std::span<const std::byte* const> sources, std::span<std::byte* const> results,
                      std::size_t count, float divisor);

/// The loops of one type and operation.
struct Kernels {
  Loop whole = nullptr;   ///< loop from elements to elements
  Loop partly = nullptr;  ///< loop from elements to partial results; null where the types are the same
  Loop finish = nullptr;  ///< loop from one partial result to elements; null where it is a copy
};

/// The loops of one instruction set, by DataType and ReduceOp; empty where the operation is not defined.
using Table = std::array<std::array<Kernels, 8>, 7>;

struct Set {
  const char* name;
  const Table* table;
};

/// Each table is null if the compiler cannot make its loops; they may run only if the processor can run them.
const Table* base_table();
const Table* avx2_table();
const Table* avx512_table();

/// The instruction sets that this machine can run, the best one first.
std::span<const Set> sets();

void reduce(const Table& table, std::span<const std::byte* const> sources,
            std::span<std::byte* const> results, std::size_t count, DataType type, ReduceOp op);
void reduce_partly(const Table& table, std::span<const std::byte* const> sources, std::byte* partial,
                   std::size_t count, DataType type, ReduceOp op);
void finish(const Table& table, const std::byte* partial, std::byte* result, std::size_t count, DataType type,
            ReduceOp op, int ranks);

}  // namespace muster::kernels
