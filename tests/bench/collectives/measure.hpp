// SPDX-License-Identifier: Apache-2.0
// What the clients share: their command line, their loop and how they report.
//
// Arguments: BUDGET_MS OP:BYTES... Each case takes about the budget and prints on rank 0
// "NAME OP BYTES MICROSECONDS", the time of a call, and from 1 MiB on "NAME OP.processor BYTES MICROSECONDS",
// the processor time of a call on all ranks together. BYTES: the buffer of all_reduce and broadcast; what one
// rank gives to all_gather, gets from reduce_scatter, sends to one other rank in all_to_all or ping_pong.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace muster::bench {

struct Case {
  std::string op;
  std::size_t bytes = 0;
};

struct Plan {
  double budget_us = 0;
  std::vector<Case> cases;
};

/// Reads what is left of the command line from argv[first] on.
inline Plan plan_from(int argc, char** argv, int first) {
  Plan plan;
  if (argc <= first) {
    std::fprintf(stderr, "arguments: ... BUDGET_MS OP:BYTES...\n");
    std::exit(2);
  }
  plan.budget_us = std::atof(argv[first]) * 1000;
  for (int i = first + 1; i < argc; ++i) {
    const std::string text = argv[i];
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) continue;
    plan.cases.push_back({text.substr(0, colon), std::strtoull(text.c_str() + colon + 1, nullptr, 10)});
  }
  return plan;
}

inline bool is_gathering(const std::string& op) {
  return op == "all_gather" || op == "reduce_scatter" || op == "all_to_all";
}

/// Bytes that the larger buffer of any case needs.
inline std::size_t most_bytes(const Plan& plan, int ranks) {
  std::size_t most = 64;
  for (const Case& one : plan.cases)
    most = std::max(most, one.bytes * (is_gathering(one.op) ? static_cast<std::size_t>(ranks) : 1));
  return most;
}

using Clock = std::chrono::steady_clock;

/// Of all threads of this process, in microseconds.
inline double processor_time() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

inline double since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Of one library: how it makes its calls.
class Client {
 public:
  virtual ~Client() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Both hold most_bytes(). A case works in place in the first one, or from the first to the second.
  virtual std::byte* first() = 0;
  virtual void barrier() = 0;
  virtual void all_reduce(float* data, std::size_t count) = 0;
  /// One call of `one`, the `turn`th of its case. False: this library is not measured at that.
  virtual bool call(const Case& one, int turn) = 0;
};

/// The buffer is written anew before each large call, as a program does; smaller ones stay as they are.
constexpr std::size_t kFillFrom = std::size_t{1} << 20;

struct Figures {
  double median = -1;    ///< time of one call on this rank; negative where the library has no such call
  double processor = 0;  ///< mean over the calls, of all ranks together; 0 where buffers are small
};

inline Figures measure(Client& client, const Case& one, double budget_us) {
  const bool fills = one.bytes >= kFillFrom;
  int turn = 0;
  for (; turn < (fills ? 1 : 5); ++turn)
    if (!client.call(one, turn)) return {};
  const auto start = Clock::now();
  const int trials = fills ? 1 : 5;
  for (int i = 0; i < trials; ++i) client.call(one, turn++);
  // All ranks must make the same calls, so they agree on what one takes.
  float estimate = static_cast<float>(since(start) / trials);
  client.all_reduce(&estimate, 1);
  const double each = std::max(0.05, static_cast<double>(estimate) / client.size());
  const int calls = fills ? 1 : std::clamp(static_cast<int>(20 / each), 1, 50);
  const int samples = std::clamp(static_cast<int>(budget_us / (each * calls)), 5, 1001);
  std::vector<double> times;
  double processor = 0;
  for (int i = 0; i < samples; ++i) {
    if (fills) {
      std::memset(client.first(), 0, one.bytes);
      client.barrier();
    }
    const double spent = processor_time();
    const auto begin = Clock::now();
    for (int k = 0; k < calls; ++k) client.call(one, turn++);
    times.push_back(since(begin) / calls);
    processor += processor_time() - spent;
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  Figures figures{one.op == "ping_pong" ? *middle / 2 : *middle, 0};
  if (!fills) return figures;
  float sum = static_cast<float>(processor / samples);
  client.all_reduce(&sum, 1);
  figures.processor = static_cast<double>(sum);
  return figures;
}

inline void report(const Client& client, const std::string& name, const Case& one, double microseconds) {
  if (client.rank() != 0 || microseconds < 0) return;
  std::printf("%s %s %zu %.4f\n", name.c_str(), one.op.c_str(), one.bytes, microseconds);
  std::fflush(stdout);
}

inline void run(Client& client, const std::string& name, const Plan& plan) {
  for (const Case& one : plan.cases) {
    const Figures figures = measure(client, one, plan.budget_us);
    report(client, name, one, figures.median);
    if (figures.processor > 0) report(client, name, {one.op + ".processor", one.bytes}, figures.processor);
  }
}

/// The mean over the ranks of how long it took to join the job.
inline void report_init(Client& client, const std::string& name, double microseconds) {
  float sum = static_cast<float>(microseconds);
  client.all_reduce(&sum, 1);
  report(client, name, {"init", static_cast<std::size_t>(client.size())},
         static_cast<double>(sum) / client.size());
}

}  // namespace muster::bench
