// SPDX-License-Identifier: Apache-2.0
// How fast the calls are, in the terms of NVIDIA's nccl-tests (its doc/PERFORMANCE.md): algbw is bytes by
// time, busbw what each link carried. On real GPUs this is a measurement; on the fakes, whose bandwidth means
// nothing, a test that the figures come out.
#include "catch.hpp"
#include "tests/integration/comm/rank_processes.hpp"
#include "tests/integration/nccl/nccl_world.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

struct Kind {
  Collective collective;
  /// Whether the count is that of the whole buffer, or of one rank's part of it.
  bool counts_part;
  /// busbw / algbw for `n` ranks.
  double (*factor)(double n);
};

constexpr Kind kKinds[] = {
    {Collective::all_reduce, false, [](double n) { return 2 * (n - 1) / n; }},
    {Collective::all_gather, true, [](double n) { return (n - 1) / n; }},
    {Collective::reduce_scatter, true, [](double n) { return (n - 1) / n; }},
    {Collective::all_to_all, true, [](double n) { return (n - 1) / n; }},
    {Collective::broadcast, false, [](double) { return 1.0; }},
};

double seconds_per_call(ProcessGroup& group, const Operation& operation, int calls) {
  group.barrier();
  const auto start = Clock::now();
  std::shared_ptr<Work> last;
  for (int i = 0; i < calls; ++i) last = group.start({operation});
  last->wait(std::chrono::seconds(60));
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

std::string measure(ProcessGroup& group, std::size_t most, int calls) {
  test::DeviceMemory memory;
  auto* const in = static_cast<std::byte*>(group.allocate(most));
  auto* const out = static_cast<std::byte*>(group.allocate(most));
  const auto ranks = static_cast<std::size_t>(group.size());
  std::string table;
  for (const Kind& kind : kKinds) {
    for (std::size_t bytes = std::size_t{64} << 10; bytes <= most; bytes *= 4) {
      Operation operation;
      operation.call.collective = kind.collective;
      operation.call.type = DataType::f32;
      operation.call.count = bytes / sizeof(float) / (kind.counts_part ? ranks : 1);
      operation.in = in;
      operation.out = out;
      operation.stream = memory.stream();
      (void)seconds_per_call(group, operation, 2);
      const double time = seconds_per_call(group, operation, calls);
      const double algorithm = static_cast<double>(bytes) / time / 1e9;
      char line[160];
      std::snprintf(line, sizeof(line), "%-15s %11zu B %12.1f us  algbw %8.2f GB/s  busbw %8.2f GB/s\n",
                    std::string(name_of(kind.collective)).c_str(), bytes, time * 1e6, algorithm,
                    algorithm * kind.factor(static_cast<double>(ranks)));
      table += line;
    }
  }
  group.barrier();
  return table;
}

}  // namespace

TEST_CASE("bandwidth") {
  const test::FakeGpus fakes;
  const bool is_real = test::real_gpus() > 0;
  const int size = std::max(2, test::real_gpus());
  const test::StoreProcess store;
  const auto results = test::run_processes(size, store.port(), [&](int rank, StoreClient& keys) {
    const auto group = test::make_nccl_group(keys, rank, size, {});
    return measure(*group, is_real ? std::size_t{256} << 20 : std::size_t{256} << 10, is_real ? 20 : 2);
  });
  for (const test::RankResult& result : results) {
    INFO(result.text);
    CHECK_FALSE(result.code.has_value());
    CHECK(std::count(result.text.begin(), result.text.end(), '\n') >= 5);
  }
  if (is_real) std::printf("%d ranks on %d GPUs\n%s", size, test::real_gpus(), results[0].text.c_str());
  CHECK(fakes.violations() == "");
}

}  // namespace muster
