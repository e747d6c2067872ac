// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/matrix.hpp"

#include "catch.hpp"
#include "rendezvous/base/philox.hpp"

#include <cmath>
#include <vector>

using namespace muster::parallel;

namespace {

std::vector<float> random_values(std::size_t count, std::uint64_t stream) {
  muster::RandomStream random(17, stream);
  std::vector<float> values(count);
  for (float& value : values) value = random.unit() - 0.5F;
  return values;
}

}  // namespace

TEST_CASE("Products with narrow matrices are those of the definition") {
  const std::size_t n = 7;
  const std::size_t m = 37;
  const std::size_t r = 3;
  const auto a = random_values(n * m, 1);
  const auto q = random_values(m * r, 2);
  const auto p = random_values(n * r, 3);
  std::vector<float> left(n * r);
  std::vector<float> right(m * r);
  std::vector<float> outer(n * m);
  multiply(a.data(), q.data(), left.data(), n, m, r);
  multiply_transposed(a.data(), p.data(), right.data(), n, m, r);
  outer_product(p.data(), q.data(), outer.data(), n, m, r);
  for (std::size_t k = 0; k < r; ++k) {
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < m; ++j) sum += static_cast<double>(a[i * m + j]) * q[k * m + j];
      CHECK(std::abs(left[k * n + i] - sum) < 1e-5);
    }
    for (std::size_t j = 0; j < m; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(a[i * m + j]) * p[k * n + i];
      CHECK(std::abs(right[k * m + j] - sum) < 1e-5);
    }
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < m; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < r; ++k) sum += static_cast<double>(p[k * n + i]) * q[k * m + j];
      CHECK(std::abs(outer[i * m + j] - sum) < 1e-5);
    }
}

TEST_CASE("Columns become orthonormal, even those that nearly agree") {
  const std::size_t n = 50;
  const std::size_t r = 4;
  auto p = random_values(n * r, 4);
  // The second column is the first but for a trace, the fourth is a sum of others.
  for (std::size_t i = 0; i < n; ++i) {
    p[n + i] = p[i] + 1e-3F * p[n + i];
    p[3 * n + i] = p[i] - 2 * p[2 * n + i];
  }
  orthonormalize(p.data(), n, r);
  for (std::size_t a = 0; a < r; ++a)
    for (std::size_t b = a; b < r; ++b) {
      double dot = 0;
      for (std::size_t i = 0; i < n; ++i) dot += static_cast<double>(p[a * n + i]) * p[b * n + i];
      const double wanted = a == b && a != 3 ? 1.0 : 0.0;
      INFO(a << " " << b);
      CHECK(std::abs(dot - wanted) < 1e-5);
    }
}

TEST_CASE("Zeros stay zeros") {
  std::vector<float> p(20);
  orthonormalize(p.data(), 10, 2);
  CHECK(p == std::vector<float>(20));
}
