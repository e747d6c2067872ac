// SPDX-License-Identifier: Apache-2.0
// The front end: arguments, started calls, and groups that have failed. Over threads.
#include "worker_sdk/comm/process_group.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/comm/thread_world.hpp"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

namespace muster::process_group_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Outcome;
using test::run_world;

void check_well(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.text);
    CHECK_FALSE(outcome.code.has_value());
  }
}

TEST_CASE("what does not matter to a call may differ") {
  check_well(run_world(3, [](ProcessGroup& group) {
    float data[4] = {};
    Operation operation = operation_of(Collective::all_reduce, 4, DataType::f32, data, data);
    operation.call.root = 100 * group.rank();
    operation.call.tag = group.rank();
    group.run(operation);
    operation.call.collective = Collective::all_gather;
    operation.call.count = 1;
    float all[3] = {};
    operation.out = all;
    operation.call.op = group.rank() == 0 ? ReduceOp::max : ReduceOp::sum;
    group.run(operation);
    operation.call.collective = Collective::barrier;
    operation.call.count = static_cast<std::uint64_t>(group.rank());
    group.run(operation);
  }));
}

TEST_CASE("the payload of a call is what a rank has to send") {
  // Bytes that ranks 1 and 0 of 4 have to send, with 10 elements of f32 to a rank; 3, 1, 4 and 2 of different
  // counts. Root is rank 0.
  const std::uint64_t counts[] = {3, 1, 4, 2};
  const std::map<Collective, std::pair<double, double>> wanted = {{Collective::barrier, {0, 0}},
                                                                  {Collective::broadcast, {30, 30}},
                                                                  {Collective::all_reduce, {60, 60}},
                                                                  {Collective::reduce, {30, 30}},
                                                                  {Collective::all_gather, {120, 120}},
                                                                  {Collective::all_gather_v, {12, 36}},
                                                                  {Collective::gather, {40, 0}},
                                                                  {Collective::scatter, {0, 120}},
                                                                  {Collective::reduce_scatter, {120, 120}},
                                                                  {Collective::all_to_all, {120, 120}},
                                                                  {Collective::send, {40, 40}},
                                                                  {Collective::recv, {0, 0}},
                                                                  {Collective::allocate, {0, 0}}};
  for (const auto& [collective, bytes] : wanted) {
    Operation operation = operation_of(collective, 10, DataType::f32, nullptr, nullptr);
    operation.counts = counts;
    INFO(name_of(collective));
    CHECK(static_cast<double>(payload_times_size(operation, 1, 4)) == 4 * bytes.first);
    CHECK(static_cast<double>(payload_times_size(operation, 0, 4)) == 4 * bytes.second);
  }
}

TEST_CASE("a group adds up the payload of its calls, and no call rounds it") {
  check_well(run_world(3, [](ProcessGroup& group) {
    std::uint8_t data[1] = {};
    for (int call = 0; call < 3; ++call) group.all_reduce(data, 1, DataType::u8, ReduceOp::sum);
    group.start({operation_of(Collective::barrier, 0, DataType::u8, nullptr, nullptr)})->wait();
    // Three times 4/3 of a byte.
    if (group.traffic().payload != 4) throw Error(ErrorCode::state, "wrong payload");
    if (group.traffic().wire.control_messages != 0) throw Error(ErrorCode::state, "shared memory has a wire");
  }));
}

TEST_CASE("algorithms have the names that MUSTER_ALGORITHM takes") {
  for (const Algorithm each : {Algorithm::direct, Algorithm::ring, Algorithm::tree})
    CHECK(algorithm_named(name_of(each)) == each);
  CHECK_FALSE(algorithm_named("Ring").has_value());
  CHECK_FALSE(algorithm_named("").has_value());
}

TEST_CASE("started calls run in their order, and the counts are copied") {
  std::atomic<int> wrong{0};
  check_well(run_world(3, [&](ProcessGroup& group) {
    std::int64_t value = group.rank() + 1;
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 20; ++i) {
      Operation operation = operation_of(Collective::all_reduce, 1, DataType::i64, &value, &value);
      operation.call.op = i % 2 == 0 ? ReduceOp::sum : ReduceOp::max;
      works.push_back(group.start({operation}));
    }
    std::uint8_t out[6] = {};
    const auto own = static_cast<std::uint8_t>(group.rank() + 1);
    const std::uint8_t in[3] = {own, own, own};
    {
      const std::vector<std::uint64_t> counts = {1, 2, 3};
      Operation gather = operation_of(Collective::all_gather_v, 0, DataType::u8, in, out);
      gather.counts = counts.data();
      works.push_back(group.start({gather}));
    }
    for (const auto& work : works) work->wait();
    std::int64_t expected = 6;
    for (int i = 2; i < 20; i += 2) expected *= 3;
    if (value != expected) ++wrong;
    if (!std::equal(out, out + 6, std::begin({1, 2, 2, 3, 3, 3}))) ++wrong;
  }));
  CHECK(wrong == 0);
}

TEST_CASE("a wait that ends early leaves the call running") {
  std::atomic<int> early{0};
  check_well(run_world(2, [&](ProcessGroup& group) {
    const auto released = group.split(0, group.rank());
    float value = 1;
    if (group.rank() == 0) {
      const auto work = group.start({operation_of(Collective::all_reduce, 1, DataType::f32, &value, &value)});
      if (!work->test()) ++early;
      try {
        work->wait(milliseconds(5));
      } catch (const Error& error) {
        if (error.code() == ErrorCode::deadline && contains(error.what(), "it goes on")) ++early;
      }
      released->barrier();
      work->wait(milliseconds::max());
    } else {
      released->barrier();
      group.all_reduce(&value, 1, DataType::f32, ReduceOp::sum);
    }
    if (value == 2) ++early;
  }));
  CHECK(early == 4);
}

TEST_CASE("a failure reaches every started call and every later one") {
  auto groups = shm::make_thread_groups(2, test::options_with(seconds(30)));
  std::atomic<int> failed{0};
  const auto outcomes = test::run_ranks(groups, [&](ProcessGroup& group) {
    float data[10] = {};
    const auto count = group.rank() == 0 ? std::size_t{10} : std::size_t{5};
    const auto first = group.start({operation_of(Collective::all_reduce, count, DataType::f32, data, data)});
    const auto second = group.start({operation_of(Collective::barrier, 0, DataType::u8, nullptr, nullptr)});
    for (const auto& work : {first, second, second}) {
      try {
        work->wait();
      } catch (const Error& error) {
        if (error.code() == ErrorCode::mismatch && contains(error.what(), "10 x f32")) ++failed;
      }
    }
    group.barrier();
  });
  CHECK(failed == 6);
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.code == ErrorCode::mismatch);
    CHECK(contains(outcome.text, "5 x f32"));
  }
}

TEST_CASE("ranks that ask for different groups learn of both") {
  using Ranks = std::vector<int>;
  const auto [first, second, expected] =
      GENERATE(table<Ranks, Ranks, std::string>({{{0}, {0, 1}, "new_group() of 1 ranks: 0"},
                                                 {{0, 1}, {1, 0}, "new_group() of 2 ranks: 1 0"},
                                                 {{0, 1}, {}, "rank 1 called split()"}}));
  auto groups = shm::make_thread_groups(2, test::options_with(seconds(30)));
  const auto outcomes = test::run_ranks(groups, [&, a = first, b = second](ProcessGroup& group) {
    const Ranks& ranks = group.rank() == 0 ? a : b;
    if (ranks.empty()) {
      group.split(0, group.rank());
    } else {
      group.new_group(ranks);
    }
  });
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.code == ErrorCode::mismatch);
    CHECK_THAT(outcome.text, Contains("rank 0 called") && Contains(expected));
  }
  CHECK_THROWS_WITH(groups[0]->barrier(), outcomes[0].text);
}

/// The signals that each thread of this process has blocked, by its number.
std::map<std::string, std::uint64_t> blocked_signals() {
  std::map<std::string, std::uint64_t> result;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "status");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("SigBlk:"))
        result[task.path().filename()] = std::stoull(line.substr(7), nullptr, 16);
  }
  return result;
}

TEST_CASE("no signal handler of the program runs on the thread of started calls") {
  const auto before = blocked_signals();
  auto groups = shm::make_thread_groups(1, test::options_with(seconds(30)));
  groups[0]->start({operation_of(Collective::barrier, 0, DataType::u8, nullptr, nullptr)})->wait();
  int started = 0;
  for (const auto& [thread, blocked] : blocked_signals()) {
    if (before.count(thread) != 0) continue;
    ++started;
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) CHECK((blocked >> (signal - 1) & 1U) == 1);
  }
  CHECK(started == 1);
}

TEST_CASE("destroying a group ends its unfinished calls") {
  auto groups = shm::make_thread_groups(2, test::options_with(seconds(30)));
  float value = 1;
  const auto work =
      groups[0]->start({operation_of(Collective::all_reduce, 1, DataType::f32, &value, &value)});
  groups[0].reset();
  CHECK_THROWS_AS(work->wait(), Error);
  CHECK_THROWS_AS(work->test(), Error);
}

/// Refuses the second call and counts what it sees.
class Observer : public CallObserver {
 public:
  void entering(const Call& call) override {
    ++entered;
    if (call.sequence == 2) throw Error(ErrorCode::state, "told to fail");
  }

  void completed(const Call&) override { ++ended; }

  void failed(const Call& call, const Error&) noexcept override { failed_at = call.sequence; }

  int entered = 0;
  int ended = 0;
  std::uint64_t failed_at = 0;
};

class ObservedFactory : public GroupFactory {
 public:
  std::unique_ptr<Backend> make(const GroupPlan&) override { return nullptr; }

  std::shared_ptr<CallObserver> observer(const GroupPlan&) override { return seen; }

  std::shared_ptr<Observer> seen = std::make_shared<Observer>();
};

/// Counts calls; refuses every third for its arguments.
class CountingBackend : public Backend {
 public:
  explicit CountingBackend(std::vector<std::uint64_t>& sequences) : sequences_(sequences) {}

  std::string_view name() const override { return "counting"; }

  void run(std::span<const Operation> batch) override {
    sequences_.push_back(batch.front().call.sequence);
    if (sequences_.size() == 3) throw Error(ErrorCode::invalid_argument, "not this one");
  }

  void* allocate(const Call&) override { return nullptr; }

  void abort(ErrorCode, const std::string&) noexcept override {}

 private:
  std::vector<std::uint64_t>& sequences_;
};

TEST_CASE("an observer sees every call and can end the group") {
  std::vector<std::uint64_t> sequences;
  const auto factory = std::make_shared<ObservedFactory>();
  ProcessGroup group(std::make_unique<CountingBackend>(sequences), GroupPlan{}, factory);
  group.barrier();
  CHECK_THROWS_WITH(group.barrier(), "told to fail");
  CHECK_THROWS_WITH(group.barrier(), "told to fail");
  CHECK(factory->seen->entered == 2);
  CHECK(factory->seen->ended == 1);
  CHECK(factory->seen->failed_at == 2);
  CHECK(sequences == std::vector<std::uint64_t>{1});
}

/// Counts how often it is told to end.
class AbortedBackend : public Backend {
 public:
  explicit AbortedBackend(int& aborts) : aborts_(aborts) {}

  std::string_view name() const override { return "aborted"; }

  void run(std::span<const Operation>) override {}

  void* allocate(const Call&) override { return nullptr; }

  void abort(ErrorCode, const std::string&) noexcept override { ++aborts_; }

 private:
  int& aborts_;
};

/// Only puts calls on a stream: they are done at the third look, or fail then.
class DeviceBackend : public AbortedBackend {
 public:
  DeviceBackend(int& aborts, Observer& seen, bool fails)
      : AbortedBackend(aborts), seen_(seen), fails_(fails) {}

  bool is_device() const override { return true; }

  std::unique_ptr<Completion> last_run() override {
    class Third : public Completion {
     public:
      Third(Observer& seen, bool fails) : seen_(seen), fails_(fails) {}

      bool test() override {
        CHECK(seen_.ended == 0);
        if (++looks_ == 3 && fails_) throw Error(ErrorCode::peer_lost, "gone");
        return looks_ == 3;
      }

     private:
      Observer& seen_;
      bool fails_;
      int looks_ = 0;
    };

    return std::make_unique<Third>(seen_, fails_);
  }

 private:
  Observer& seen_;
  bool fails_;
};

TEST_CASE("a call on a device is complete for the observer when it is on the device") {
  int aborts = 0;
  const bool fails = GENERATE(false, true);
  const auto factory = std::make_shared<ObservedFactory>();
  ProcessGroup group(std::make_unique<DeviceBackend>(aborts, *factory->seen, fails), GroupPlan{}, factory);
  if (fails) {
    CHECK_THROWS_WITH(group.barrier(), "gone");
  } else {
    group.barrier();
  }
  CHECK(factory->seen->entered == 1);
  CHECK(factory->seen->ended == (fails ? 0 : 1));
  CHECK(factory->seen->failed_at == (fails ? 1 : 0));
  CHECK(aborts == (fails ? 1 : 0));
}

TEST_CASE("a group may go as soon as its last call is waited for") {
  int aborts = 0;
  for (int i = 0; i < 2000; ++i) {
    ProcessGroup group(std::make_unique<AbortedBackend>(aborts), GroupPlan{});
    group.start({operation_of(Collective::barrier, 0, DataType::u8, nullptr, nullptr)})->wait();
  }
  CHECK(aborts == 0);
}

/// Ends as nobody foresaw.
class ThrowingBackend : public AbortedBackend {
 public:
  using AbortedBackend::AbortedBackend;

  void run(std::span<const Operation>) override { throw std::bad_alloc(); }

  void* allocate(const Call&) override { throw std::logic_error("an odd thing"); }
};

TEST_CASE("an exception of any kind ends the group on all ranks") {
  int aborts = 0;
  ProcessGroup group(std::make_unique<ThrowingBackend>(aborts), GroupPlan{});
  const std::string text = "no memory is left for rank 0 of the group 'world' in call 1: barrier";
  SECTION("of a call") {
    CHECK_THROWS_WITH(group.barrier(), text);
  }
  SECTION("of a started call") {
    const auto work = group.start({operation_of(Collective::barrier, 0, DataType::u8, nullptr, nullptr)});
    CHECK_THROWS_WITH(work->wait(), text);
  }
  SECTION("of allocate") {
    CHECK_THROWS_WITH(group.allocate(8), Contains("failed: an odd thing"));
  }
  CHECK(aborts == 1);
  CHECK_THROWS_AS(group.barrier(), Error);
  CHECK(aborts == 1);
}

/// Says when it ends.
class EndingBackend : public AbortedBackend {
 public:
  EndingBackend(int& aborts, std::string& ends) : AbortedBackend(aborts), ends_(ends) {}

  ~EndingBackend() override { ends_ += "backend "; }

 private:
  std::string& ends_;
};

class RegisteringFactory : public GroupFactory {
 public:
  std::unique_ptr<Backend> make(const GroupPlan&) override { return nullptr; }

  std::shared_ptr<void> registration(const GroupPlan&, Backend& backend) override {
    registered = &backend;
    return std::shared_ptr<void>(nullptr, [this](void*) { ends += "registration "; });
  }

  Backend* registered = nullptr;
  std::string ends;
};

TEST_CASE("nobody can abort a backend through its registration when it ends") {
  int aborts = 0;
  const auto factory = std::make_shared<RegisteringFactory>();
  auto backend = std::make_unique<EndingBackend>(aborts, factory->ends);
  const Backend* const made = backend.get();
  {
    const ProcessGroup group(std::move(backend), GroupPlan{}, factory);
    CHECK(factory->registered == made);
    CHECK(factory->ends.empty());
  }
  CHECK(factory->ends == "registration backend ");
}

TEST_CASE("a call that the backend refuses is not counted") {
  std::vector<std::uint64_t> sequences;
  ProcessGroup group(std::make_unique<CountingBackend>(sequences), GroupPlan{});
  for (int i = 0; i < 2; ++i) group.barrier();
  CHECK_THROWS_WITH(group.barrier(), "not this one");
  group.barrier();
  CHECK(sequences == std::vector<std::uint64_t>{1, 2, 3, 3});
}

}  // namespace
}  // namespace muster::process_group_test
