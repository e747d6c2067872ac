// SPDX-License-Identifier: Apache-2.0
// Known answers: every element is a function of (rank, index). "Exact" values are whole numbers so small that
// no order of additions and no type rounds them; "rough" ones show in which order they were combined.
#pragma once

#include "muster/types.hpp"
#include "tests/contract/memory.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::contract {

/// What distinguishes the values of one call from those of others.
struct Values {
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  int size = 1;  ///< of the group: an average of exact values is a whole number
  std::uint32_t salt = 0;
};

/// `count` elements of `rank`, from index `first` on.
Bytes exact(const Values& values, int rank, std::size_t count, std::size_t first = 0);
/// What a reduction over all ranks gives.
Bytes exact_reduced(const Values& values, std::size_t count, std::size_t first = 0);

/// The same of rough values, combined in rank order, in f32 for f16 and bf16. Floating-point types only.
Bytes rough(const Values& values, int rank, std::size_t count);
Bytes rough_reduced(const Values& values, std::size_t count);

/// Elements that differ by more than an eighth of a thousandth part (f16, bf16: a few of their last digits).
std::size_t far_apart(DataType type, const Bytes& a, const Bytes& b);

}  // namespace muster::contract
