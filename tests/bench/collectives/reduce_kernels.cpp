// SPDX-License-Identifier: Apache-2.0
// The loops of all_reduce beside a plain streaming add (c[i] = a[i] + b[i] of floats), in turn, on one
// thread. Arguments: MIB ROUNDS. Prints a line "SET TYPE OP SOURCES BYTES_PER_SECOND RATIO" for each.
#include "worker_sdk/comm/reduce_kernels.hpp"

#include "worker_sdk/comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace muster::bench {
namespace {

constexpr std::array kTypes = {DataType::u8,   DataType::i32, DataType::i64, DataType::f16,
                               DataType::bf16, DataType::f32, DataType::f64};
constexpr std::array kOps = {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max,
                             ReduceOp::avg, ReduceOp::band,    ReduceOp::bor, ReduceOp::bxor};
constexpr std::size_t kMaxSources = 4;

/// This file alone is compiled for the very processor that it runs on.
[[gnu::noinline]] void streaming_add(float* c, const float* a, const float* b, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) c[i] = a[i] + b[i];
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Measurement {
 public:
  Measurement(std::size_t bytes, int rounds) : bytes_(bytes), rounds_(rounds), out_(bytes / sizeof(float)) {
    for (std::size_t s = 0; s < kMaxSources; ++s) sources_.emplace_back(bytes / sizeof(float), 1.0F);
  }

  /// Bytes read and written in a second.
  void compare(const char* set, const kernels::Table& table, DataType type, ReduceOp op, std::size_t ranks) {
    std::vector<const std::byte*> sources;
    for (std::size_t s = 0; s < ranks; ++s)
      sources.push_back(reinterpret_cast<const std::byte*>(sources_[s].data()));
    auto* const out = reinterpret_cast<std::byte*>(out_.data());
    std::vector<double> ours;
    std::vector<double> plain;
    for (int round = 0; round < rounds_ + 1; ++round) {
      const double theirs =
          seconds([&] { streaming_add(out_.data(), sources_[0].data(), sources_[1].data(), out_.size()); });
      const double time = seconds(
          [&] { kernels::reduce(table, sources, std::span(&out, 1), bytes_ / size_of(type), type, op); });
      if (round == 0) continue;
      plain.push_back(theirs / 3);
      ours.push_back(time / static_cast<double>(ranks + 1));
    }
    const double rate = static_cast<double>(bytes_) / median(ours);
    std::printf("%s %s %s %zu %.3e %.3f\n", set, std::string(name_of(type)).c_str(),
                std::string(name_of(op)).c_str(), ranks, rate, median(plain) / median(ours));
  }

 private:
  std::size_t bytes_;
  int rounds_;
  std::vector<float> out_;
  std::vector<std::vector<float>> sources_;
};

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster;
  if (argc < 3) {
    std::fprintf(stderr, "arguments: MIB ROUNDS\n");
    return 2;
  }
  bench::Measurement measurement(static_cast<std::size_t>(std::atof(argv[1]) * (1 << 20)),
                                 std::atoi(argv[2]));
  for (const kernels::Set& set : kernels::sets()) {
    for (const DataType type : bench::kTypes)
      for (const ReduceOp op : bench::kOps) {
        if (!is_defined(op, type)) continue;
        measurement.compare(set.name, *set.table, type, op, 2);
        if (op == ReduceOp::sum) measurement.compare(set.name, *set.table, type, op, bench::kMaxSources);
      }
  }
  return 0;
}
