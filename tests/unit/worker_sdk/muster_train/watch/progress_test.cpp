// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/watch/progress.hpp"

#include "catch.hpp"
#include "worker_sdk/nn/learner/text.hpp"

using muster::train::Progress;
using muster::train::Score;
using muster::train::Seconds;
using muster::train::StepReport;

namespace {

/// Step 50 of 100, all 50 of this process; the last had 6,400 images.
StepReport halfway() {
  StepReport report;
  report.epoch_step = 50;
  report.epoch_steps = 100;
  report.step.samples = 6400;
  report.step.loss = 9600;
  report.step.correct = 1600;
  report.step.times.data_wait = 0.25;
  report.position.sample = 6400;
  report.position.loss = 9600;
  report.position.correct = 1600;
  return report;
}

/// A progress whose process began at the first step of the epoch.
Progress begun(const Progress::Options& options, int epoch) {
  Progress progress(options);
  progress.begin_epoch(epoch, Seconds(100));
  StepReport first;
  first.epoch_step = 1;
  first.epoch_steps = 100;
  progress.step(first, Seconds(100));
  return progress;
}

}  // namespace

TEST_CASE("Off a terminal there are whole lines, one in ten seconds and one per epoch") {
  Progress progress = begun({3, false, 0}, 1);
  CHECK(progress.step(halfway(), Seconds(109.9)).empty());
  CHECK(progress.step(halfway(), Seconds(110)) ==
        "epoch 2/3  step 50/100  loss 1.500  accuracy 25.0 %  1280 images/s  batch 3.333 s, of it data 0.167 "
        "s  ETA 0:10\n");
  CHECK(progress.step(halfway(), Seconds(119)).empty());
  CHECK_FALSE(progress.step(halfway(), Seconds(120)).empty());
  CHECK(progress.end_epoch({1000, 1.25, 0.5}, Seconds(2), {200, 1.5, 0.4561}).substr(0, 53) ==
        "epoch 2/3  loss 1.250  train 50.0 %  test 45.6 %  128");
  CHECK(progress.end_epoch({1000, 1.25, 0.5}, Seconds(2), {}).find("test") == std::string::npos);
}

TEST_CASE("A line every so many steps comes at those, whatever the time") {
  Progress progress = begun({1, false, 25}, 0);
  CHECK_FALSE(progress.step(halfway(), Seconds(100.01)).empty());
  StepReport other = halfway();
  other.epoch_step = 51;
  CHECK(progress.step(other, Seconds(200)).empty());
}

TEST_CASE("On a terminal one line is drawn over") {
  Progress progress = begun({1, true, 0}, 0);
  CHECK(progress.step(halfway(), Seconds(100.05)).empty());
  const std::string bar = progress.step(halfway(), Seconds(100.2));
  CHECK(bar ==
        "\r\x1b[Kepoch 1/1  [============            ] 50/100  loss 1.500  accuracy 25.0 %  64000 images/s  "
        "ETA 0:00");
  CHECK(progress.step(halfway(), Seconds(100.25)).empty());
  CHECK(progress.end_epoch({}, Seconds(1), {}).substr(0, 4) == "\r\x1b[K");
}

TEST_CASE("The rate counts what this process did, not what was done before it") {
  Progress progress({1, false, 10});
  progress.begin_epoch(0, Seconds(0));
  StepReport report = halfway();
  report.position.sample = 1'000'000;
  const std::string line = progress.step(report, Seconds(10));
  CHECK(line.find("  640 images/s") != std::string::npos);
  CHECK(line.find("ETA 8:20") != std::string::npos);  // one step in ten seconds, fifty to go
}

TEST_CASE("Accuracy is written in percent with one decimal") {
  CHECK(muster::train::percent(0.5321) == "53.2 %");
  CHECK(muster::train::percent(1) == "100.0 %");
}
