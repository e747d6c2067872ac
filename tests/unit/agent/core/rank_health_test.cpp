// SPDX-License-Identifier: Apache-2.0
#include "agent/core/rank_health.hpp"

#include "catch.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace rank_health_test {

using namespace muster::agent;
using namespace std::chrono_literals;
using muster::rendezvous::Activity;
using muster::rendezvous::CodePlace;
using muster::rendezvous::RankHealth;
using muster::rendezvous::WaitKind;

namespace {

const std::string kTorch = "/venv/lib/python3.11/site-packages/torch/";
const std::string kPython = "/usr/lib/python3.11/";

const CodePlace kUser{"/home/u/train.py", 41, "load"};
const CodePlace kAllReduce{kTorch + "distributed/distributed_c10d.py", 2806, "all_reduce"};
const CodePlace kLogger{kTorch + "distributed/c10d_logger.py", 81, "wrapper"};
const CodePlace kSelect{kPython + "selectors.py", 415, "select"};
const CodePlace kLoader{kTorch + "utils/data/dataloader.py", 1133, "_try_get_data"};
const CodePlace kBackward{kTorch + "autograd/graph.py", 823, "_engine_run_backward"};

using Change = std::function<void(WorkerSample&)>;

WorkerSample asleep() {
  WorkerSample sample;
  sample.at = std::chrono::steady_clock::time_point(100s);
  sample.state = 'S';
  sample.cpu = 5000ms;
  sample.helpers_cpu = 3000ms;
  sample.voluntary_switches = 200;
  sample.bytes_written = 1000;
  return sample;
}

/// The same worker 14 s later.
WorkerSample later(const Change& change) {
  WorkerSample sample = asleep();
  sample.at += 14s;
  change(sample);
  return sample;
}

RankHealth judged(const WorkerSample& now, const Frames& frames) {
  StackSummary stack;
  stack.main = frames;
  return judge_still(asleep(), asleep(), now, stack);
}

const Change kComputes = [](WorkerSample& now) {
  now.state = 'R';
  now.cpu += 13900ms;
};

Change in_call(SystemCall call, DescriptorKind descriptor = DescriptorKind::unknown,
               std::uint64_t switches = 0) {
  return [=](WorkerSample& now) {
    now.call = call;
    now.descriptor = descriptor;
    now.voluntary_switches += switches;
  };
}

struct StandingStill {
  std::string program;
  Change change;
  Frames stack;
  Activity activity = Activity::waits;
  WaitKind wait = WaitKind::unknown;
  bool stirs = false;
};

}  // namespace

TEST_CASE("Programs that look alike are told apart as far as anything tells them apart") {
  const auto busy = Activity::busy;
  const auto waits = Activity::waits;
  const Frames none;
  const Frames user{kUser};
  const Frames pdb{{kPython + "cmd.py", 127, "cmdloop"},
                   {kPython + "pdb.py", 1482, "_cmdloop"},
                   {kPython + "bdb.py", 90, "trace_dispatch"},
                   kUser};
  const Frames asyncio{kSelect, {kPython + "asyncio/base_events.py", 1884, "_run_once"}, kUser};
  const Frames notebook{kSelect,
                        {kPython + "asyncio/base_events.py", 1884, "_run_once"},
                        {"/venv/lib/python3.11/site-packages/tornado/platform/asyncio.py", 205, "start"},
                        {"/venv/lib/python3.11/site-packages/ipykernel/kernelapp.py", 739, "start"}};
  const Frames loader{kSelect, {kPython + "multiprocessing/connection.py", 947, "wait"}, kLoader, kUser};
  const Frames event{{kPython + "threading.py", 327, "wait"}, kUser};
  const Frames collective{kAllReduce, kLogger, kUser};
  const auto terminal = DescriptorKind::terminal;
  const auto other = DescriptorKind::other;
  const Change stopped = [](WorkerSample& now) { now.state = 'T'; };
  const Change locked_helper = [](WorkerSample& now) {
    now.call = SystemCall::poll;
    now.helpers = 2;
    now.helpers_in_lock = 1;
    now.voluntary_switches += 3;
  };
  const Change in_kernel = [](WorkerSample& now) { now.state = 'D'; };
  const std::vector<StandingStill> programs{
      {"an endless loop in Python", kComputes, user, busy},
      {"healthy tokenising", kComputes, {{"/home/u/tokens.py", 7, "encode"}, kUser}, busy},
      {"evaluation", kComputes, {{kTorch + "nn/functional.py", 10, "linear"}, kUser}, busy},
      {"a step of 40 s", kComputes, {{kTorch + "nn/modules/linear.py", 125, "forward"}, kUser}, busy},
      {"a step of 40 s, in backward", kComputes, {kBackward, kUser}, busy},
      {"a product in numpy", kComputes, user, busy},
      {"a runaway regular expression", kComputes, {{kPython + "re/__init__.py", 176, "search"}, kUser}, busy},
      {"a program in C that computes", kComputes, none, busy},
      {"a pdb prompt", in_call(SystemCall::poll), pdb, waits, WaitKind::terminal},
      {"a read from a terminal", in_call(SystemCall::read, terminal), user, waits, WaitKind::terminal},
      {"a read on a dead pipe", in_call(SystemCall::read, other), user, waits, WaitKind::file},
      {"sleep(1) in a loop", in_call(SystemCall::sleep, {}, 13), user, waits, WaitKind::sleep, true},
      {"sleep(1e6)", in_call(SystemCall::sleep), user, waits, WaitKind::sleep},
      {"an idle server", in_call(SystemCall::events), asyncio, waits, WaitKind::events},
      {"an idle server on poll", in_call(SystemCall::poll), asyncio, waits, WaitKind::events},
      {"a notebook's kernel", in_call(SystemCall::events), notebook, waits, WaitKind::events},
      {"a wait for a key that only the store tells", in_call(SystemCall::poll), user, waits},
      {"a checkpoint in one write", in_call(SystemCall::write, {}, 131), user, waits, WaitKind::file, true},
      {"a read of a file system that never answers", in_kernel, user, waits, WaitKind::file},
      {"a lock", in_call(SystemCall::lock), user, waits, WaitKind::lock},
      {"an event, with a time-out again and again", in_call(SystemCall::lock, {}, 14), event, waits,
       WaitKind::lock, true},
      {"a lock, on a kernel that shows nothing", [](WorkerSample&) {}, event, waits, WaitKind::lock},
      {"a lock in a program whose stack is not known", in_call(SystemCall::lock), none, waits},
      {"a child that stands still", in_call(SystemCall::child), user, waits, WaitKind::helpers, true},
      {"a data loader with a deadlocked worker", locked_helper, loader, waits, WaitKind::helpers},
      {"a stopped process", stopped, collective, waits, WaitKind::stopped},
      {"a process in a debugger", [](WorkerSample& now) { now.state = 't'; }, user, waits,
       WaitKind::terminal},
      {"a collective", in_call(SystemCall::lock), collective, waits, WaitKind::communication},
      {"a collective that spins", kComputes, collective, waits, WaitKind::communication, true},
      {"DistributedDataParallel's wait",
       in_call(SystemCall::lock),
       {kBackward, kUser},
       waits,
       WaitKind::communication},
  };
  for (const StandingStill& program : programs) {
    INFO(program.program);
    const WorkerSample now = later(program.change);
    CHECK_FALSE(has_moved(asleep(), now));
    const RankHealth health = judged(now, program.stack);
    CHECK(health.activity == program.activity);
    CHECK(health.wait == program.wait);
    CHECK(health.stirs == program.stirs);
  }
}

TEST_CASE("A worker moves by what it gives, takes and calls, and by its helpers' CPU time") {
  const std::vector<std::pair<const char*, Change>> moves{
      {"a line of output", [](WorkerSample& now) { now.output_bytes += 12; }},
      {"a call of the SDK", [](WorkerSample& now) { ++now.slot_calls; }},
      {"a step", [](WorkerSample& now) { ++now.slot_step; }},
      {"a log file", [](WorkerSample& now) { now.bytes_written += 400; }},
      {"a file that is read", [](WorkerSample& now) { now.bytes_read += 14 * 20'000; }},
      {"a checkpoint that reaches the disk", [](WorkerSample& now) { now.disk_bytes += 4096; }},
      // Of live processes alone this had fallen, as the compilers ended: those that were reaped count.
      {"a compilation in a child", [](WorkerSample& now) { now.helpers_cpu += 9000ms; }},
      {"a data loader that warms up: 1,121 ticks", [](WorkerSample& now) { now.helpers_cpu += 11'210ms; }},
  };
  for (const auto& [what, change] : moves) {
    INFO(what);
    CHECK(has_moved(asleep(), later(change)));
  }
}

TEST_CASE("What idle threads and helpers do is no sign of life") {
  const std::vector<std::pair<const char*, Change>> idle{
      {"CPU time of its own", kComputes},
      {"a thread that wakes another", [](WorkerSample& now) { now.bytes_written += 8 * 14; }},
      {"a monitor that reads /proc", [](WorkerSample& now) { now.bytes_read += 60'000; }},
      {"helpers that look for work", [](WorkerSample& now) { now.helpers_cpu += 200ms; }},
      {"a counter that fell", [](WorkerSample& now) { now.helpers_cpu -= 2000ms; }},
  };
  for (const auto& [what, change] : idle) {
    INFO(what);
    CHECK_FALSE(has_moved(asleep(), later(change)));
  }
}

TEST_CASE("The collective is named as the program called it, and the line is the user's own") {
  const Frames new_group{{kTorch + "distributed/distributed_c10d.py", 1900, "_new_process_group_helper"},
                         {kTorch + "distributed/distributed_c10d.py", 5300, "new_group"},
                         kLogger,
                         {"/home/u/mesh.py", 12, "build"},
                         kUser};
  const RankHealth health = judged(later(in_call(SystemCall::lock)), new_group);
  CHECK(health.operation == "new_group");
  CHECK(health.place.file == "/home/u/mesh.py");
  CHECK(health.place.line == 12);
  CHECK(health.place.function == "build");
  CHECK(judged(later(in_call(SystemCall::lock)), {kBackward, kUser}).operation == "backward");
  CHECK(judged(later(in_call(SystemCall::lock)),
               {{kTorch + "nn/parallel/distributed.py", 873, "__init__"}, kUser})
            .operation == "DistributedDataParallel");
}

TEST_CASE("Computing beneath a call of a communication library is computing") {
  const Frames pickling{{kPython + "pickle.py", 560, "save"}, kAllReduce, kUser};
  CHECK(judged(later(kComputes), pickling).activity == Activity::busy);
  CHECK(judged(later(in_call(SystemCall::lock)), pickling).wait == WaitKind::communication);
}

TEST_CASE("The status slot and the store know better than the stack what a rank waits for") {
  const WorkerSample in_slot = later([](WorkerSample& now) {
    now.operation = "all_gather";
    now.group = "dp";
    now.sequence = 12;
    now.cpu += 13000ms;
  });
  const RankHealth slot = judged(in_slot, {kUser});
  CHECK(slot.wait == WaitKind::communication);
  CHECK(slot.operation == "all_gather");
  CHECK(slot.group == "dp");
  CHECK(slot.sequence == 12);
  const WorkerSample at_store = later([](WorkerSample& now) { now.store_key = "never"; });
  const RankHealth store = judged(at_store, {kAllReduce, kUser});
  CHECK(store.wait == WaitKind::store_key);
  CHECK(store.key == "never");
  CHECK(store.operation == "all_reduce");
  // Another thread asks the store while the main one does something else.
  const auto meanwhile = [](const Change& change) {
    return judged(later([&change](WorkerSample& now) {
                    now.store_key = "never";
                    change(now);
                  }),
                  {kUser});
  };
  CHECK(meanwhile(kComputes).activity == Activity::busy);
  CHECK(meanwhile(in_call(SystemCall::sleep)).wait == WaitKind::sleep);
  CHECK(meanwhile(in_call(SystemCall::poll)).wait == WaitKind::store_key);
}

TEST_CASE("Who waits for the GIL waits for the thread that holds it") {
  StackSummary stack;
  stack.main = {kUser};
  stack.gil_holder = {{"/home/u/worker.py", 9, "call"}};
  // The wait for the GIL wakes up 200 times each second.
  const WorkerSample now = later(in_call(SystemCall::lock, {}, 2800));
  const RankHealth health = judge_still(asleep(), asleep(), now, stack);
  CHECK(health.wait == WaitKind::lock);
  CHECK_FALSE(health.stirs);
  CHECK(health.place.file == "/home/u/worker.py");
}

TEST_CASE("Without a system call the kernel's wait channel tells as much as it can") {
  const std::vector<std::pair<const char*, WaitKind>> channels{
      {"futex_wait_queue", WaitKind::lock}, {"hrtimer_nanosleep", WaitKind::sleep},
      {"ep_poll", WaitKind::events},        {"anon_pipe_read", WaitKind::file},
      {"pipe_read", WaitKind::file},        {"do_wait", WaitKind::helpers},
      {"n_tty_read", WaitKind::terminal},   {"request_wait_answer", WaitKind::file},
      {"do_sys_poll", WaitKind::unknown},   {"0", WaitKind::unknown},
  };
  for (const auto& [channel, kind] : channels) {
    INFO(channel);
    CHECK(judged(later([c = channel](WorkerSample& now) { now.wait_channel = c; }), {kUser}).wait == kind);
  }
}

TEST_CASE("Names from another process are cut and hold no control characters") {
  const auto place = own_place({{"/home/\x1b[2J\n" + std::string(5000, 'p') + ".py", -3, "f\x7f"}});
  CHECK(place.file.size() < 250);
  CHECK(contains(place.file, "ppp.py"));
  CHECK(place.line == 0);
  CHECK(place.function == "f?");
  const auto escaped = own_place({{"\x1b[31m.py", 1, "f"}});
  CHECK(escaped.file == "?[31m.py");
  CHECK_FALSE(own_place({}).known());
  // Where all is library, the innermost frame is better than nothing.
  CHECK(own_place({kAllReduce}).function == "all_reduce");
}

TEST_CASE("A program that sleeps in a library which talks to other ranks waits for them") {
  StackSummary stack;
  stack.main = {kUser};
  stack.library = "libtorch_cpu.so";
  const WorkerSample locked = later(in_call(SystemCall::lock));
  const RankHealth health = judge_still(asleep(), asleep(), locked, stack);
  CHECK(health.in_communication());
  CHECK(health.operation.empty());
  CHECK(health.place == kUser);
  // It waits for the workers of a data loader, writes a file from there, or computes.
  StackSummary loads = stack;
  loads.main = {kLoader, kUser};
  CHECK_FALSE(judge_still(asleep(), asleep(), locked, loads).in_communication());
  CHECK_FALSE(judge_still(asleep(), asleep(), later(in_call(SystemCall::write)), stack).in_communication());
  CHECK_FALSE(judge_still(asleep(), asleep(), later(kComputes), stack).in_communication());
  for (const char* const library :
       {"python3.11", "libpython3.13.so.1.0", "libcuda.so.1", "libgomp.so.1", ""}) {
    CAPTURE(library);
    stack.library = library;
    CHECK(judge_still(asleep(), asleep(), locked, stack).wait == WaitKind::lock);
  }
}

TEST_CASE("What NCCL tells of a rank counts where nothing else tells what it does") {
  const auto with_nccl = [](const Change& change) {
    WorkerSample sample = later(change);
    sample.nccl_operation = "all_reduce";
    sample.nccl_communicator = "NCCL 1c41c0e2";
    sample.nccl_sequence = 5;
    return sample;
  };
  const RankHealth spins = judged(with_nccl(kComputes), {kUser});
  CHECK(spins.in_communication());
  CHECK(spins.operation == "all_reduce");
  CHECK(spins.group == "NCCL 1c41c0e2");
  CHECK(spins.sequence == 5);
  CHECK(judged(with_nccl(kComputes), {kBackward, kUser}).operation == "all_reduce");
  CHECK(judged(with_nccl([](WorkerSample&) {}), {}).in_communication());
  // It has launched a collective, and does something else meanwhile.
  CHECK(judged(with_nccl(in_call(SystemCall::sleep)), {kUser}).wait == WaitKind::sleep);
  CHECK(judged(with_nccl(in_call(SystemCall::lock)), {kUser}).wait == WaitKind::lock);
}

}  // namespace rank_health_test
