// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/reduce_kernels.hpp"

#include "worker_sdk/comm/reduce.hpp"

#include <cstring>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#define MUSTER_X86 1
#endif

namespace muster::kernels {
namespace {

const Kernels& at(const Table& table, DataType type, ReduceOp op) {
  return table[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)];
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  // memmove forbids null pointers even for nothing.
  if (to != from && bytes > 0) std::memmove(to, from, bytes);
}

#ifdef MUSTER_X86
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

std::vector<Set> find_sets() {
  std::vector<Set> all;
#ifdef MUSTER_X86
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") != 0 &&
                      __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                      __builtin_cpu_supports("avx512vl") != 0;
  if (avx512) all.push_back({"avx512", avx512_table()});
  if (avx2) all.push_back({"avx2", avx2_table()});
#endif
  all.push_back({"base", base_table()});
  return all;
}

}  // namespace

std::span<const Set> sets() {
  static const std::vector<Set> usable = find_sets();
  return usable;
}

void reduce(const Table& table, std::span<const std::byte* const> sources,
            std::span<std::byte* const> results, std::size_t count, DataType type, ReduceOp op) {
  if (sources.size() > 1)
    return at(table, type, op).whole(sources, results, count, static_cast<float>(sources.size()));
  for (std::byte* const result : results) copy_bytes(result, sources[0], count * size_of(type));
}

void reduce_partly(const Table& table, std::span<const std::byte* const> sources, std::byte* partial,
                   std::size_t count, DataType type, ReduceOp op) {
  const Loop loop = at(table, type, op).partly;
  if (loop == nullptr) return reduce(table, sources, std::span(&partial, 1), count, type, partial_op(op));
  loop(sources, std::span(&partial, 1), count, 1);
}

void finish(const Table& table, const std::byte* partial, std::byte* result, std::size_t count, DataType type,
            ReduceOp op, int ranks) {
  const Loop loop = at(table, type, op).finish;
  if (loop == nullptr) return copy_bytes(result, partial, count * size_of(type));
  loop(std::span(&partial, 1), std::span(&result, 1), count, static_cast<float>(ranks));
}

}  // namespace muster::kernels
