// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/watch/run_log.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/checkpoint/folder.hpp"

#include <nlohmann/json.hpp>

#include <sstream>

namespace run_log_test {

using namespace muster::train;
using muster::test::Folder;

namespace {

/// A log whose clock is at 2 s after the first step, 3 s after the second; each step has 10 images.
class Steps {
 public:
  explicit Steps(const LogOptions& options) : log(options, [](const std::string&) {}) {}

  void make(int count, double loss) {
    for (int i = 0; i < count; ++i) {
      ++report.position.step;
      report.step.samples = 10;
      report.step.loss = 10 * loss;
      report.learning_rate = 0.5F;
      log.step(report, Seconds(static_cast<double>(report.position.step) + 1));
    }
  }

  RunLog log;
  StepReport report;
};

LogOptions every(std::int64_t steps, const Folder& folder) {
  LogOptions options;
  options.metrics_every = steps;
  options.metrics = folder / "metrics";
  return options;
}

std::vector<nlohmann::json> lines(const LogOptions& options) {
  std::istringstream text(muster::test::bytes_of_file(options.metrics));
  std::vector<nlohmann::json> result;
  for (std::string line; std::getline(text, line);) result.push_back(nlohmann::json::parse(line));
  return result;
}

/// "step 3" and the like, of each line.
std::vector<std::string> events(const LogOptions& options) {
  std::vector<std::string> result;
  for (const auto& line : lines(options))
    result.push_back(line.at("event").get<std::string>() + " " + line.at("step").dump());
  return result;
}

}  // namespace

TEST_CASE("The last steps of an epoch are in the files, too") {
  const Folder folder;
  const LogOptions options = every(2, folder);
  Steps steps(options);
  for (int epoch = 0; epoch < 2; ++epoch) {
    steps.log.begin_epoch(epoch, Seconds(1 + 3 * epoch));
    steps.make(2, 4);
    steps.make(1, 2);
    steps.log.end_epoch(steps.report.position, {}, Seconds(3), {}, Seconds(100));
  }
  CHECK(events(options) ==
        std::vector<std::string>{"step 2", "step 3", "epoch 3", "step 5", "step 6", "epoch 6"});
  const auto rest = lines(options).at(1);
  CHECK(rest.at("loss") == 2);
  CHECK(rest.at("learning_rate") == 0.5);
  CHECK(rest.at("seconds") == 4);
  CHECK(rest.at("images_per_second") == 10);  // without what comes between the last step and the epoch's end
}

TEST_CASE("An epoch of fewer steps than an entry is an entry, one that ends with an entry has no empty one") {
  const Folder folder;
  const LogOptions options = every(20, folder);
  Steps steps(options);
  steps.log.begin_epoch(0, Seconds(1));
  steps.make(3, 4);
  steps.log.end_epoch(steps.report.position, {}, Seconds(3), {}, Seconds(5));
  steps.log.begin_epoch(1, Seconds(5));
  steps.make(20, 4);
  steps.log.end_epoch(steps.report.position, {}, Seconds(3), {}, Seconds(50));
  CHECK(events(options) == std::vector<std::string>{"step 3", "epoch 3", "step 23", "epoch 23"});
}

TEST_CASE("A run that is stopped leaves its last steps before it says so") {
  const Folder folder;
  const LogOptions options = every(20, folder);
  Steps steps(options);
  steps.log.begin_epoch(0, Seconds(1));
  steps.make(3, 4);
  steps.log.note("stopped", "told to stop", steps.report.position, Seconds(9));
  steps.log.note("profile", "a trace", steps.report.position, Seconds(10));
  CHECK(events(options) == std::vector<std::string>{"step 3", "stopped 3", "profile 3"});
}

}  // namespace run_log_test
