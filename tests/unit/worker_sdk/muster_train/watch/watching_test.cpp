// SPDX-License-Identifier: Apache-2.0
// What a run writes about itself: event files, JSON lines, tables, traces.
#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/shm_ranks.hpp"
#include "tests/support/thread_group.hpp"
#include "worker_sdk/comm/texts.hpp"
#include "worker_sdk/muster_train/watch/event_file.hpp"
#include "worker_sdk/muster_train/watch/json_line.hpp"
#include "worker_sdk/nn/learner/step_profile.hpp"
#include "worker_sdk/nn/learner/text.hpp"
#include "worker_sdk/nn/learner/trace.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>

namespace watching_test {

using namespace muster::train;
using namespace std::chrono_literals;
using muster::test::bytes_of_file;
using muster::test::Folder;

TEST_CASE("CRC-32C gives the check value of its definition") {
  CHECK(crc32c("123456789") == 0xE3069283U);
  CHECK(crc32c("") == 0);
}

TEST_CASE("An event file begins with its version, each record in its frame") {
  const Folder folder;
  EventFile file(folder / "runs/a");
  file.add("loss", 3, 1.5F);
  CHECK(file.flush());
  const std::string bytes = bytes_of_file(file.path());
  const std::string first = record_frame(version_event(0));
  REQUIRE(bytes.size() > first.size());
  CHECK(bytes.substr(0, 8) == first.substr(0, 8));
  CHECK(bytes.find("brain.Event:2") != std::string::npos);
  CHECK(bytes.find("loss") != std::string::npos);
  CHECK_THROWS_AS(EventFile("/proc/none"), muster::Error);
}

TEST_CASE("A line of JSON is JSON, whatever is in it") {
  const std::string line = JsonLine()
                               .add("event", "a \"quoted\"\nline\\")
                               .add("loss", std::nan(""))
                               .add("rate", 0.1)
                               .add("step", std::int64_t{1} << 40)
                               .text();
  CHECK(line.find('\n') == std::string::npos);
  const auto parsed = nlohmann::json::parse(line);
  CHECK(parsed.at("event") == "a \"quoted\"\nline\\");
  CHECK(parsed.at("loss").is_null());
  CHECK(parsed.at("rate").get<double>() == Approx(0.1));
  CHECK(parsed.at("step") == std::int64_t{1} << 40);
}

TEST_CASE("The table of times adds up to the step") {
  StepTimes step;
  step.data_wait = 0.001;
  step.forward = 0.010;
  step.backward = 0.020;
  step.exposed = 0.002;
  step.optimizer = 0.003;
  step.total = 0.040;
  step.communication = 0.015;
  StepProfile profile;
  profile.add(step);
  profile.add(step);
  profile.add_between(0.012);
  const std::string table = time_table(profile.mean(nullptr), profile.steps(), 2);
  CHECK(table.find("mean of 2 steps on 2 ranks") != std::string::npos);
  CHECK(table.find("exposed communication         2.000 ms    5.0 %") != std::string::npos);
  CHECK(table.find("rest                          4.000 ms   10.0 %") != std::string::npos);
  CHECK(table.find("communication                15.000 ms  hidden") != std::string::npos);
  CHECK(table.find("between steps                 6.000 ms  logs") != std::string::npos);
  CHECK(time_table({}, 0, 1).empty());
}

TEST_CASE("The mean of times is that of all ranks") {
  const auto errors = muster::test::run_ranks(2, [](muster::test::ThreadGroup& group) {
    StepTimes step;
    step.total = 1 + group.rank();
    StepProfile profile;
    profile.add(step);
    if (profile.mean(&group).total != 1.5) throw std::runtime_error("not the mean");
  });
  for (const std::string& error : errors) CHECK(error.empty());
}

TEST_CASE("A wait for late ranks is no communication") {
  const auto errors = muster::test::run_ranks(2, [](muster::test::ThreadGroup& group) {
    StepProfile profile;
    for (int i = 0; i < 4; ++i) {
      StepTimes step;
      step.exposed = i % 2 == group.rank() ? 0.5 : 0.125;  // they come last in turn
      profile.add(step);
    }
    const StepTimes mean = profile.mean(&group);
    if (mean.exposed != 0.125 || mean.late != 0.1875)
      throw std::runtime_error(std::to_string(mean.exposed) + " " + std::to_string(mean.late));
    if (time_table(mean, 4, 2).find("waiting for late ranks      187.500 ms") == std::string::npos)
      throw std::runtime_error("not in the table");
  });
  for (const std::string& error : errors) CHECK(error.empty());
}

TEST_CASE("What rounding leaves of a wait is not negative") {
  const auto errors = muster::test::run_ranks(2, [](muster::test::ThreadGroup& group) {
    StepProfile profile;
    StepTimes step;
    step.exposed = group.rank() == 0 ? 0.0 : 0.2;  // as floats both are larger
    profile.add(step);
    step.exposed = group.rank() == 0 ? 0.0 : 0.1;
    profile.add(step);
    const StepTimes mean = profile.mean(&group);
    if (mean.exposed < 0 || mean.exposed > 1e-6) throw std::runtime_error(std::to_string(mean.exposed * 1e9));
    if (time_table(mean, 2, 2).find("-0.000") != std::string::npos)
      throw std::runtime_error("a negative time");
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("The memory table leaves out what there is not") {
  MemoryTable memory;
  memory.parameters = 44'700'000;
  memory.peak_resident = peak_resident_bytes();
  const std::string table = memory_table(memory);
  CHECK(table.find("parameters                    44.7 MB") != std::string::npos);
  CHECK(table.find("average") == std::string::npos);
  CHECK(memory.peak_resident > 1'000'000);
}

TEST_CASE("The rank that waits the shortest is the one that comes last") {
  const Straggler found = find_straggler({{0.5, 0.6, 0.1, 0.4}, {0.1, 0.1, 0.4, 0.1}});
  CHECK(found.rank == 1);
  CHECK(found.steps == 3);
  CHECK(found.of == 4);
  CHECK(found.lateness == Approx((0.4 + 0.5 + 0.3) / 3));
  CHECK(describe(found, 2).substr(0, 37) == "rank 1 arrives last in 3 of 4 steps, ");
  CHECK(describe({}, 1).find("no other") != std::string::npos);
  CHECK(describe(find_straggler({{}, {}}), 2).find("is not known: no wait for gradients") !=
        std::string::npos);
}

TEST_CASE("One trace holds the spans of all ranks, and says when it is full") {
  const Folder folder;
  const std::string path = folder / "trace.json";
  const auto errors = muster::test::run_shm_ranks(2, [&](muster::ProcessGroup& group) {
    TraceRecorder recorder(2);
    const TraceRecorder::Time origin{};
    recorder.span("forward", Lane::compute, origin + 5us, origin + 9us, 1);
    recorder.span("all_reduce", Lane::communication, origin + 9us, origin + 12us, 1);
    recorder.span("backward", Lane::compute, origin + 12us, origin + 13us, 1);
    recorder.arrival(group.rank() == 0 ? 5us : 1us);
    const std::string note = write_trace(path, recorder, origin, "n\"00", &group);
    if (note.substr(0, 35) != "rank 1 arrives last in 1 of 1 steps") throw std::runtime_error(note);
  });
  for (const std::string& error : errors) CHECK(error.empty());
  const auto trace = nlohmann::json::parse(bytes_of_file(path));
  CHECK(trace.at("otherData").at("straggler").get<std::string>().find("1 spans at the end are left out") !=
        std::string::npos);
  int spans = 0;
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("ph") == "X" && event.at("name") == "forward") {
      ++spans;
      CHECK(event.at("ts").get<double>() == 5);
      CHECK(event.at("dur").get<double>() == 4);
    }
  CHECK(spans == 2);
  CHECK_THROWS_AS(write_trace(muster::test::absent() + "/trace.json", TraceRecorder(), {}, "n00", nullptr),
                  muster::Error);
}

TEST_CASE("The texts of all ranks come to the first one alone") {
  const auto errors = muster::test::run_shm_ranks(3, [](muster::ProcessGroup& group) {
    const std::vector<std::string> mine = {"", "one", std::string(100'000, 'x')};
    const auto texts = muster::texts_at_first(&group, mine.at(static_cast<std::size_t>(group.rank())));
    if (texts != (group.rank() == 0 ? mine : std::vector<std::string>()))
      throw std::runtime_error("other texts");
  });
  for (const std::string& error : errors) CHECK(error.empty());
  CHECK(muster::texts_at_first(nullptr, "alone") == std::vector<std::string>{"alone"});
}

TEST_CASE("Ranks of a node share the origin of a trace, those of other nodes have their own clock's") {
  std::vector<TraceRecorder::Time> origins(3);
  const auto before = std::chrono::steady_clock::now();
  const auto errors = muster::test::run_ranks(3, [&](muster::test::ThreadGroup& group) {
    origins[static_cast<std::size_t>(group.rank())] = shared_origin(&group, group.rank() / 2, 2);
  });
  for (const std::string& error : errors) CHECK(error.empty());
  CHECK(origins[0] == origins[1]);
  CHECK(origins[0] >= before);
  CHECK(origins[2] >= before);
  CHECK(shared_origin(nullptr, 0, 1) >= before);
}

TEST_CASE("Times for people") {
  CHECK(clock_time(7.4) == "0:07");
  CHECK(clock_time(725) == "12:05");
  CHECK(clock_time(10930) == "3:02:10");
}

}  // namespace watching_test
