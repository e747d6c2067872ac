// SPDX-License-Identifier: Apache-2.0
// How fast the calls are, in the terms of NVIDIA's nccl-tests (its doc/PERFORMANCE.md): algbw is bytes by
// time, busbw what each link carried. On real GPUs this is a measurement; on the fakes, whose bandwidth means
// nothing, a test that every figure comes out, and is that of a call whose result is right.
#include "catch.hpp"
#include "tests/integration/comm/rank_processes.hpp"
#include "tests/integration/nccl/nccl_world.hpp"
#include "worker_sdk/comm/call.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

struct Kind {
  Collective collective;
  /// Whether the count is that of the whole buffer, or of one rank's part of it.
  bool counts_part;
  bool adds;
  /// busbw / algbw for `n` ranks.
  double (*factor)(double n);
};

constexpr Kind kKinds[] = {
    {Collective::all_reduce, false, true, [](double n) { return 2 * (n - 1) / n; }},
    {Collective::all_gather, true, false, [](double n) { return (n - 1) / n; }},
    {Collective::reduce_scatter, true, true, [](double n) { return (n - 1) / n; }},
    {Collective::all_to_all, true, false, [](double n) { return (n - 1) / n; }},
    {Collective::broadcast, false, false, [](double) { return 1.0; }},
};

double seconds_per_call(ProcessGroup& group, const Operation& operation, int calls) {
  group.barrier();
  const auto start = Clock::now();
  std::shared_ptr<Work> last;
  for (int i = 0; i < calls; ++i) last = group.start({operation});
  last->wait(std::chrono::seconds(60));
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

contract::Bytes bytes_of(const std::vector<float>& values) {
  contract::Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// All ranks gave ones.
void expect_result(test::DeviceMemory& memory, std::byte* out, const Kind& kind, std::size_t bytes,
                   int ranks) {
  const std::size_t given =
      kind.collective == Collective::reduce_scatter ? bytes / static_cast<std::size_t>(ranks) : bytes;
  const std::vector<float> wanted(given / sizeof(float), kind.adds ? static_cast<float>(ranks) : 1.0F);
  if (memory.read(out, given) != bytes_of(wanted))
    throw std::runtime_error("a wrong result of " + std::string(name_of(kind.collective)));
}

constexpr std::size_t kLeast = std::size_t{64} << 10;

/// The largest buffer. Ranks that share a GPU meet through sockets of the host, where 256 MiB take minutes.
std::size_t most_bytes(int ranks) {
  const int gpus = test::real_gpus();
  if (gpus == 0) return std::size_t{256} << 10;
  return gpus < ranks ? std::size_t{4} << 20 : std::size_t{256} << 20;
}

std::string measure(ProcessGroup& group, std::size_t most, int calls) {
  test::DeviceMemory memory;
  auto* const in = static_cast<std::byte*>(group.allocate(most, MemoryKind::device));
  auto* const out = static_cast<std::byte*>(group.allocate(most, MemoryKind::device));
  const auto ranks = static_cast<std::size_t>(group.size());
  memory.write(in, bytes_of(std::vector<float>(most / sizeof(float), 1.0F)));
  std::string table;
  for (const Kind& kind : kKinds) {
    for (std::size_t bytes = kLeast; bytes <= most; bytes *= 4) {
      Operation operation = operation_of(
          kind.collective, bytes / sizeof(float) / (kind.counts_part ? ranks : 1), DataType::f32, in, out);
      operation.stream = memory.stream();
      memory.write(out, contract::Bytes(most));
      (void)seconds_per_call(group, operation, 2);
      const double time = seconds_per_call(group, operation, calls);
      expect_result(memory, out, kind, bytes, group.size());
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
  const std::size_t most = most_bytes(size);
  long lines = 0;
  for (std::size_t bytes = kLeast; bytes <= most; bytes *= 4) lines += static_cast<long>(std::size(kKinds));
  const test::StoreProcess store;
  const auto results = test::run_processes(size, store.port(), [&](int rank, StoreClient& keys) {
    const auto group = test::make_nccl_group(keys, rank, size, {});
    return measure(*group, most, is_real ? 20 : 2);
  });
  for (const test::RankResult& result : results) {
    INFO(result.text);
    CHECK_FALSE(result.code.has_value());
    CHECK(std::count(result.text.begin(), result.text.end(), '\n') == lines);
    // A hundredth of what any link of a GPU carries; ranks that share a GPU meet through sockets of the host.
    if (test::real_gpus() >= size) CHECK(result.text.find(" 0.00 GB/s") == std::string::npos);
  }
  if (is_real) std::printf("%d ranks on %d GPUs\n%s", size, test::real_gpus(), results[0].text.c_str());
  CHECK(fakes.violations() == "");
}

}  // namespace muster
