// SPDX-License-Identifier: Apache-2.0
// The linear algebra of low-rank compression. `a` is n x m, row by row; factors have few columns and are
// stored column by column. The same input gives the same bits on every machine of one kind.
#pragma once

#include <cstddef>

namespace muster::parallel {

/// Computes p (n x r) = a * q (m x r).
void multiply(const float* a, const float* q, float* p, std::size_t n, std::size_t m, std::size_t r);

/// Computes q (m x r) = transposed a * p (n x r).
void multiply_transposed(const float* a, const float* p, float* q, std::size_t n, std::size_t m,
                         std::size_t r);

/// Computes a = p (n x r) * transposed q (m x r).
void outer_product(const float* p, const float* q, float* a, std::size_t n, std::size_t m, std::size_t r);

/// Makes the columns of `p` (n x r) orthonormal, from the left, by the modified method of Gram and Schmidt,
/// each column twice (Giraud, Langou, Rozloznik, 2005), with sums in f64. A column that depends on the
/// columns before it becomes zero.
void orthonormalize(float* p, std::size_t n, std::size_t r);

}  // namespace muster::parallel
