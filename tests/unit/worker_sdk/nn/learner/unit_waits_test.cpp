// SPDX-License-Identifier: Apache-2.0
// Where the time goes that a model in shards waits for its units.
#include "catch.hpp"
#include "tests/unit/worker_sdk/muster_train/training.hpp"
#include "worker_sdk/nn/learner/sharded_model.hpp"
#include "worker_sdk/nn/learner/trace.hpp"

#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace unit_waits_test {

using namespace muster::train;
using muster::ProcessGroup;
using muster::test::run_shm_ranks;
using muster::test::small_set;

TEST_CASE("A wait for a unit goes from forward or backward to what it was for") {
  const auto at = [](int ms) { return std::chrono::steady_clock::time_point(std::chrono::milliseconds(ms)); };
  const std::vector<PassTimes> passes = {{at(0), at(100), at(200)}, {at(200), at(300), at(500)}};
  muster::StepTiming timing;
  timing.meeting = at(400);
  timing.met = at(410);
  timing.buckets.resize(2);
  timing.buckets[0].reduced = at(420);
  timing.buckets[0].stepped = at(425);
  const std::vector<UnitWait> waits = {
      {at(10), at(30), muster::Work::Interval{at(5), at(30)}},       // in the first forward
      {at(95), at(105), muster::Work::Interval{at(90), at(105)}},    // where the first pass turns
      {at(250), at(251), muster::Work::Interval{at(220), at(240)}},  // in the second forward, gathered before
      {at(395), at(430), std::nullopt},                              // in the second backward, for a place
  };
  StepTimes times;
  times.forward = 0.2;
  times.backward = 0.3;
  const StepTimes before = times;
  account_waits(waits, passes, timing, true, times);
  CHECK(times.forward == Approx(0.2 - 0.020 - 0.005 - 0.001));
  CHECK(times.backward == Approx(0.3 - 0.005 - 0.035));
  CHECK(times.late == Approx(0.010));
  CHECK(times.optimizer == Approx(0.005));
  CHECK(times.exposed == Approx(0.020 + 0.010 + 0.001 + 0.020));
  CHECK(times.communication == Approx(0.025 + 0.015 + 0.020));
  // With clipping buckets are stepped behind backward, so that no wait was for that.
  StepTimes clipped = before;
  account_waits(waits, passes, timing, false, clipped);
  CHECK(clipped.optimizer == 0);
  CHECK(clipped.exposed == Approx(times.exposed + 0.005));
}

namespace {

/// The milliseconds of the spans of a name.
double sum_of(const TraceRecorder& trace, const std::string& name) {
  std::istringstream lines(trace.events(0, {}));
  double sum = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.find("\"" + name + "\"") != std::string::npos)
      sum += std::stod(line.substr(line.find("\"dur\": ") + 7));
  return sum / 1000;
}

}  // namespace

TEST_CASE("The waits of a step are in its times and in its trace") {
  const auto data = small_set(8, 2);
  for (const int accumulation : {1, 2}) {
    const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
      TrainerOptions options;
      options.learner.reducer.sharding.form = muster::Form::fsdp;
      options.batch_size = 2;
      options.accumulation = accumulation;
      Trainer trainer(data, &group, options);
      Score score;
      trainer.evaluate(score);  // whose waits are no step's
      TraceRecorder trace;
      trainer.learner().record(&trace);
      StepTimes sum;
      trainer.train_epoch([&](const StepReport& report) { sum += report.step.times; }, score);
      const double waited = sum_of(trace, "wait for a unit") + sum_of(trace, "wait for a place");
      const auto ms = [](double seconds) { return 1000 * seconds; };
      muster::test::require(waited > 0 && sum_of(trace, "all_gather") > 0, "nothing was waited for");
      muster::test::require(ms(sum.exposed + sum.late + sum.optimizer) >= waited - 0.1,
                            "waits are not in the times");
      muster::test::require(ms(sum.forward + sum.backward) <= ms(sum.total) - waited + 0.1,
                            "waits are in the passes");
      muster::test::require(sum.forward > 0 && sum.backward > 0, "more was taken away than there was");
      trainer.learner().record(nullptr);
    });
    CHECK(errors == std::vector<std::string>(2));
  }
}

}  // namespace unit_waits_test
