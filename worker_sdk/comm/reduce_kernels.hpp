// SPDX-License-Identifier: Apache-2.0
// The loops below reduce.hpp, once for each instruction set. Internal, and known to tests and benchmarks.
#pragma once

#include "muster/types.hpp"

#include <array>
#include <cstddef>
#include <span>

namespace muster::kernels {

/// Combines `count` elements of `sources`, in their order, divides by `divisor` where the loop is one of avg,
/// and writes to all of `results`. A result may be the very memory of a source whose elements are no
/// narrower.
using Loop = void (*)(std::span<const std::byte* const> sources, std::span<std::byte* const> results,
                      std::size_t count, float divisor);

/// The loops of one type and operation.
struct Kernels {
  Loop whole = nullptr;   ///< from elements to elements
  Loop partly = nullptr;  ///< from elements to partial results; null where the types are the same
  Loop finish = nullptr;  ///< from one partial result to elements; null where it is a copy
};

/// The loops of one instruction set, by DataType and ReduceOp; empty where the operation is not defined.
using Table = std::array<std::array<Kernels, 8>, 7>;

struct Set {
  const char* name;
  const Table* table;
};

/// Null where the compiler cannot make them; to be run only where the processor can.
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
