// SPDX-License-Identifier: Apache-2.0
// Calls that go wrong, each in a group of its own, since it does not survive them.
#include "muster/error.hpp"
#include "tests/contract/rank.hpp"
#include "tests/support/promise.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

namespace muster::contract {
namespace {

using Clock = std::chrono::steady_clock;

/// When a rank that waits for an error gives up; not what is promised.
constexpr auto kPatience = std::chrono::seconds(60);
/// How soon all ranks know that their calls differ: docs/failures.md.
constexpr double kMismatchSeconds = 2;
constexpr const char* kMismatchName = "ranks make different calls";

/// What ends `call`; empty when nothing does.
template <typename Call>
std::optional<Error> error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {};
}

/// Runs a call that differs between ranks, and where that may be found late, others behind it.
void run_mismatch(const Rank& rank, ProcessGroup& group, const Operation& operation) {
  group.run(operation);
  const auto until = Clock::now() + kPatience;
  while (rank.options().finds_late && Clock::now() < until) group.barrier();
}

void expect_error(const Rank& rank, const std::optional<Error>& error, ErrorCode code,
                  const std::vector<std::string>& parts, const std::string& what) {
  rank.expect(error.has_value(), what + ": no error");
  const std::string text = error->what();
  rank.expect(error->code() == code,
              what + ": code " + std::to_string(static_cast<int>(error->code())) + " (" + text + ")");
  for (const std::string& part : parts)
    rank.expect(text.find(part) != std::string::npos, what + ": '" + part + "' is not in '" + text + "'");
}

/// All ranks make `usual` but the last, which makes `other`: an error on each that names both. Returns the
/// seconds until this rank has it.
double mismatch(Rank& rank, Operation usual, Operation other, const std::vector<std::string>& parts) {
  const auto group = rank.group().split(0, rank.rank());
  const auto memory = rank.buffer(100'000);
  const Bytes before(100'000, std::byte{0x41});
  memory->write(before);
  Operation& mine = rank.rank() == rank.size() - 1 ? other : usual;
  mine.in = memory->data();
  mine.out = memory->data() + (mine.call.collective == Collective::all_gather ? 50'000 : 0);
  auto start = Clock::now();
  const auto error = error_of([&] {
    // A rank that is still in it when another one has failed fails in it.
    group->barrier();
    start = Clock::now();
    run_mismatch(rank, *group, mine);
  });
  const std::string what = "mismatch of " + parts[0] + " and " + parts[1];
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  expect_error(rank, error, ErrorCode::mismatch, parts, what);
  const auto again = error_of([&] { group->barrier(); });
  expect_error(rank, again, ErrorCode::mismatch, parts, "the call after a " + what);
  rank.expect(memory->is_intact(), what + ": bytes around the buffer");
  // What is found late is found after the data has gone its way.
  rank.expect(rank.options().finds_late || memory->read() == before, what + ": the buffer is as it was");
  return took;
}

/// Each of these where it took longest on any rank.
std::vector<double> slowest_of_all(const Rank& rank, const std::vector<double>& seconds) {
  Bytes bytes(seconds.size() * sizeof(double));
  std::memcpy(bytes.data(), seconds.data(), bytes.size());
  const auto memory = rank.buffer(bytes);
  Operation most =
      operation_of(Collective::all_reduce, seconds.size(), DataType::f64, memory->data(), memory->data());
  most.call.op = ReduceOp::max;
  rank.group().run(most);
  bytes = memory->read();
  std::vector<double> slowest(seconds.size());
  std::memcpy(slowest.data(), bytes.data(), bytes.size());
  return slowest;
}

void mismatches(Rank& rank) {
  const auto call = [](Collective collective, DataType type, std::size_t count) {
    return operation_of(collective, count, type, nullptr, nullptr);
  };
  const Operation sum10 = call(Collective::all_reduce, DataType::f32, 10);
  Operation maximum = sum10;
  maximum.call.op = ReduceOp::max;
  Operation root1 = call(Collective::broadcast, DataType::u8, 100);
  root1.call.root = 1;

  const struct {
    Operation usual;
    Operation other;
    std::vector<std::string> parts;
  } kinds[] = {
      {sum10, call(Collective::all_reduce, DataType::f32, 20), {"10 x f32", "20 x f32"}},
      {call(Collective::all_reduce, DataType::f32, 1'000),
       call(Collective::all_reduce, DataType::f32, 24'000),
       {"1000 x f32", "24000 x f32"}},
      {sum10, call(Collective::all_reduce, DataType::i32, 10), {"10 x f32", "10 x i32"}},
      {sum10, maximum, {"sum", "max"}},
      {sum10, call(Collective::barrier, DataType::u8, 0), {"all_reduce of 10", "barrier"}},
      {sum10, call(Collective::all_gather, DataType::f32, 10), {"all_reduce of 10", "all_gather"}},
      {call(Collective::broadcast, DataType::u8, 100), root1, {"root 0", "root 1"}},
  };

  const auto measure = [&] {
    std::vector<double> took;
    for (const auto& kind : kinds) took.push_back(mismatch(rank, kind.usual, kind.other, kind.parts));
    return slowest_of_all(rank, took);
  };
  // Rank 0 judges; the others measure as often as it does.
  const double usual = rank.options().finds_late ? 0 : rank.options().usual_mismatch_seconds;
  std::vector<double> took = measure();
  std::string late = rank.rank() == 0 ? test::late(kMismatchName, kMismatchSeconds, took, 0, usual) : "";
  if (slowest_of_all(rank, {late.empty() ? 0.0 : 1.0}).front() == 0) return;
  // As test::late_beside_others() does.
  for (int again = 0; again < 2; ++again) {
    const std::vector<double> more = measure();
    took.insert(took.end(), more.begin(), more.end());
  }
  if (rank.rank() != 0) return;
  took.erase(std::max_element(took.begin(), took.end()));
  late = test::late(kMismatchName, kMismatchSeconds, took, 0, usual);
  rank.expect(late.empty(), late);
}

/// The sum of the counts agrees, the counts do not.
void mismatched_counts(Rank& rank) {
  const auto group = rank.group().split(0, rank.rank());
  std::vector<std::uint64_t> counts(rank.ranks(), 4);
  if (rank.rank() == 0) {
    counts[0] = 3;
    counts[1] = 5;
  }
  const auto memory = rank.buffer(1'000);
  Operation operation =
      operation_of(Collective::all_gather_v, 0, DataType::u8, memory->data(), memory->data() + 500);
  operation.counts = counts.data();
  const auto error = error_of([&] {
    group->barrier();
    run_mismatch(rank, *group, operation);
  });
  expect_error(rank, error, ErrorCode::mismatch, {"all_gather_v"}, "different counts of all_gather_v");
}

void mismatched_messages(Rank& rank) {
  if (!rank.options().checks_messages) return;
  const auto group = rank.group().split(rank.rank() < 2 ? 0 : -1, rank.rank());
  if (!group) return;
  const auto memory = rank.buffer(1'000);
  const bool sends = rank.rank() == 0;
  Operation operation = operation_of(sends ? Collective::send : Collective::recv, sends ? 10 : 20,
                                     DataType::f32, memory->data(), memory->data());
  operation.call.root = 1 - rank.rank();
  operation.call.tag = 3;
  const auto error = error_of([&] {
    group->barrier();
    run_mismatch(rank, *group, operation);
  });
  expect_error(rank, error, ErrorCode::mismatch, {"10 x f32", "20 x f32"}, "a message of another count");
}

/// What is refused, and in which words, is unit/worker_sdk/comm/check_operation_test.cpp's.
void bad_arguments(Rank& rank) {
  const auto memory = rank.buffer(1'000);
  const auto error = error_of([&] {
    rank.group().run(operation_of(Collective::all_reduce, 10, DataType::f32, nullptr, memory->data()));
  });
  expect_error(rank, error, ErrorCode::invalid_argument, {}, "no input");
  // The group is as good as before.
  rank.group().barrier();
}

void aborts(Rank& rank) {
  const auto group = rank.group().split(0, rank.rank());
  const auto error = error_of([&] {
    group->barrier();
    if (rank.rank() == 0) group->abort("the loss is not a number");
    group->barrier();
  });
  expect_error(rank, error, ErrorCode::aborted, {"the loss is not a number", "rank 0"}, "abort");
}

constexpr Case kFailureCases[] = {
    {"different calls", mismatches},
    {"different counts", mismatched_counts},
    {"different messages", mismatched_messages},
    {"bad arguments", bad_arguments},
    {"abort", aborts},
};

}  // namespace

std::span<const Case> failure_cases() {
  return kFailureCases;
}

}  // namespace muster::contract
