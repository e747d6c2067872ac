// SPDX-License-Identifier: Apache-2.0
// What a call costs besides moving data, in one process: a group whose backend does nothing, with and without
// the status slot and flight recorder, and the fingerprint: written to a cache line and compared with those
// of 2 and 8 ranks. Prints "WHAT NANOSECONDS" lines; medians over 41 turns.
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/status/status.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

class NullBackend : public Backend {
 public:
  std::string_view name() const override { return "null"; }

  void run(std::span<const Operation>) override {}

  void* allocate(const Call&) override { return nullptr; }

  void abort(ErrorCode, const std::string&) noexcept override {}
};

class NullFactory : public GroupFactory {
 public:
  std::unique_ptr<Backend> make(const GroupPlan&) override { return std::make_unique<NullBackend>(); }
};

using Clock = std::chrono::steady_clock;

double median_nanoseconds(const std::function<void()>& call) {
  constexpr int kCalls = 2000;
  std::vector<double> times;
  for (int turn = 0; turn < 41; ++turn) {
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kCalls);
  }
  std::nth_element(times.begin(), times.begin() + 20, times.end());
  return times[20];
}

double group_call(std::shared_ptr<GroupFactory> factory) {
  GroupPlan plan;
  auto backend = factory->make(plan);
  ProcessGroup group(std::move(backend), plan, std::move(factory));
  float value = 1;
  return median_nanoseconds([&] { group.all_reduce(&value, 1, DataType::f32, ReduceOp::sum); });
}

/// What each rank does with the fingerprints of all.
double fingerprint(std::size_t ranks) {
  struct alignas(64) Line {
    Call call;
  };

  std::vector<Line> lines(ranks);
  Call call;
  call.count = 1;
  call.collective = Collective::all_reduce;
  call.type = DataType::f32;
  std::size_t different = 0;
  const double time = median_nanoseconds([&] {
    ++call.sequence;
    for (Line& line : lines) {
      line.call = call;
      asm volatile("" : : "r"(&line) : "memory");  // as if another process had written it
    }
    for (std::size_t peer = 1; peer < ranks; ++peer)
      different += same_call(lines[0].call, lines[peer].call) ? 0U : 1U;
  });
  return different == 0 ? time : -1;
}

}  // namespace
}  // namespace muster::bench

int main() {
  using namespace muster;
  const auto plain = std::make_shared<bench::NullFactory>();
  status::Status status{status::StatusOptions{}};
  const double without = bench::group_call(plain);
  const double with = bench::group_call(status.observe(plain));
  std::printf("front_end %.1f\nslot %.1f\nfingerprint_2 %.1f\nfingerprint_8 %.1f\n", without, with - without,
              bench::fingerprint(2), bench::fingerprint(8));
  return 0;
}
