// SPDX-License-Identifier: Apache-2.0
// The arithmetic of reductions, for every type and operation that is_defined() (muster/types.hpp). Pure;
// memory may have any alignment.
//
// reduce() does everything at once. To reduce in pieces, call reduce_partly() where the elements are, combine
// partial results with reduce() in partial_type() and partial_op(), and call finish() once at the end with
// the number of all ranks. Then f16 and bf16 are rounded once, and avg divides once.
#pragma once

#include "muster/types.hpp"

#include <cstddef>
#include <span>

namespace muster {

/// The type in which elements of `type` are combined.
constexpr DataType partial_type(DataType type) {
  return type == DataType::f16 || type == DataType::bf16 ? DataType::f32 : type;
}

/// The operation that combines partial results of `op`.
constexpr ReduceOp partial_op(ReduceOp op) {
  return op == ReduceOp::avg ? ReduceOp::sum : op;
}

/// Reduces `sources`, each of `count` elements, in their order (((s0 op s1) op s2) ...) and writes the result
/// to each of `results`. avg divides by the number of sources. f16 and bf16 are combined in f32 and rounded
/// once at the end, to nearest even; the other types are rounded once per operation. The same inputs give the
/// same bits on every processor, except which of several NaNs is the result: sum, product and avg carry NaN;
/// min and max keep the earlier operand unless the later one compares less or greater. Integers wrap.
/// A result may be the very memory of a source; otherwise they do not overlap.
void reduce(std::span<const std::byte* const> sources, std::span<std::byte* const> results, std::size_t count,
            DataType type, ReduceOp op);

/// Does the same as reduce() without its last step: `partial` gets `count` elements of partial_type(type),
/// and avg gives the sum. `partial` may be the very memory of a source if the two types are the same.
void reduce_partly(std::span<const std::byte* const> sources, std::byte* partial, std::size_t count,
                   DataType type, ReduceOp op);

/// Turns elements of partial_type(type) into elements of `type`: rounds, and divides by `ranks` if op is avg.
/// `result` may be the very memory of `partial`.
void finish(const std::byte* partial, std::byte* result, std::size_t count, DataType type, ReduceOp op,
            int ranks);

}  // namespace muster
