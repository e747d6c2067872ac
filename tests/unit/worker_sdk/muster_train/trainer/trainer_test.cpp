// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/trainer/trainer.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/unit/worker_sdk/muster_train/training.hpp"

#include <chrono>
#include <map>
#include <thread>

namespace trainer_test {

using muster::ProcessGroup;
using muster::test::Outcome;
using muster::test::outcome_of;
using muster::test::require;
using muster::test::run_shm_ranks;
using muster::train::Score;
using muster::train::StepReport;
using muster::train::Stop;
using muster::train::Trainer;
using muster::train::TrainerOptions;
using muster::train::Votes;

namespace {

muster::data::ImageData small_set() {
  return muster::test::small_set(103, 41);
}

TrainerOptions small_options() {
  TrainerOptions options;
  options.batch_size = 16;
  return options;
}

Outcome run_world(int ranks, const muster::data::ImageData& data, const TrainerOptions& options) {
  return muster::test::run_world(ranks, data, options, 2);
}

Outcome run_alone(const muster::data::ImageData& data, const TrainerOptions& options, int epochs = 2) {
  return muster::test::run_alone(data, options, epochs);
}

}  // namespace

TEST_CASE("The same seed and world size give the same parameters, other seeds others") {
  const auto data = small_set();
  TrainerOptions options = small_options();
  const Outcome first = run_world(2, data, options);
  CHECK(run_world(2, data, options).hash == first.hash);
  options.seed = 1;
  CHECK(run_world(2, data, options).hash != first.hash);
  options.seed = 0;
  options.learner.seed = 1;
  CHECK(run_world(2, data, options).hash != first.hash);
}

TEST_CASE("What happens between the steps of an epoch is part of its profile") {
  const auto data = small_set();
  Trainer trainer(data, nullptr, small_options());  // 7 steps
  Score score;
  trainer.train_epoch([](const StepReport&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); },
                      score);
  CHECK(trainer.profile().mean(nullptr).between >= 0.005);
}

TEST_CASE("A world of one with a group equals one without") {
  const auto data = small_set();
  CHECK(run_alone(data, small_options()).hash == run_world(1, data, small_options()).hash);
}

TEST_CASE("Accumulated batches train as one batch of their size does") {
  const auto data = small_set();
  TrainerOptions whole = small_options();
  whole.batch_size = 20;
  TrainerOptions parts = small_options();
  parts.batch_size = 5;
  parts.accumulation = 4;
  const Outcome a = run_alone(data, whole);
  const Outcome b = run_alone(data, parts);
  CHECK(b.train.mean_loss == Approx(a.train.mean_loss).epsilon(1e-3));
  CHECK(run_world(2, data, parts).train.samples == 103);
}

TEST_CASE("Training learns the synthetic set") {
  const auto data = muster::test::small_set(800, 200);
  Trainer trainer(data, nullptr, small_options());
  Score before;
  trainer.evaluate(before);
  const Outcome after = outcome_of(trainer, 3);
  CHECK(before.accuracy < 0.3);
  CHECK(after.test.accuracy > 0.5);
}

TEST_CASE("Reports count the samples of all ranks, step by step") {
  const auto data = small_set();
  Trainer trainer(data, nullptr, small_options());
  std::vector<std::size_t> samples;
  Score score;
  trainer.train_epoch(
      [&](const StepReport& report) {
        CHECK(report.epoch_steps == 7);
        CHECK(report.epoch_step == samples.size() + 1);
        samples.push_back(report.position.sample);
      },
      score);
  CHECK(samples == std::vector<std::size_t>{16, 32, 48, 64, 80, 96, 103});
  CHECK(trainer.profile().steps() == 7);
}

TEST_CASE("An epoch goes on in its middle with the bits of one that was not stopped") {
  const auto data = small_set();
  const std::uint64_t wanted = run_alone(data, small_options(), 1).hash;
  Trainer trainer(data, nullptr, small_options());
  trainer.max_steps = 3;
  Score score;
  CHECK(trainer.train_epoch({}, score) == Stop::enough_steps);
  CHECK(trainer.position().sample == 48);
  trainer.max_steps = 0;
  CHECK(trainer.train_epoch({}, score) == Stop::none);
  CHECK(score.samples == 103);
  CHECK(trainer.learner().parameter_hash() == wanted);
}

TEST_CASE("A wish to stop of one rank stops all after the same step") {
  const auto data = small_set();
  const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
    Trainer trainer(data, &group, small_options());
    trainer.votes = [&] { return Votes{false, group.rank() == 1 && trainer.position().step == 1}; };
    Score score;
    require(trainer.train_epoch({}, score) == Stop::told_to_stop, "it went on");
    require(trainer.position().step == 2, "not after the step under way");
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("An evaluation ends early when one rank is told to stop") {
  const auto data = small_set();
  const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
    Trainer trainer(data, &group, small_options());
    trainer.votes = [&] { return Votes{true, group.rank() == 0}; };
    Score score;
    require(trainer.evaluate(score) == Stop::told_to_stop, "it went on");
    trainer.votes = [] { return Votes{true, false}; };  // the time alone does not end it
    require(trainer.evaluate(score) == Stop::none && score.samples == 41, "it ended");
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("The images at the end that fill no step can be left out") {
  const auto data = small_set();
  TrainerOptions options = small_options();
  options.drop_last = true;
  CHECK(run_alone(data, options, 1).train.samples == 96);
}

TEST_CASE("An epoch goes on with steps of another size: whole ones, and the rate reaches its end") {
  const auto data = small_set();
  TrainerOptions options = small_options();
  options.drop_last = true;
  options.epochs = 1;
  options.recipe.schedule = muster::optim::ScheduleKind::cosine;
  options.batch_size = 8;
  Score score;
  Trainer first(data, nullptr, options);
  first.max_steps = 6;
  first.train_epoch({}, score);
  options.batch_size = 20;
  float whole_end = 0;
  Trainer whole(data, nullptr, options);
  whole.train_epoch([&](const StepReport& report) { whole_end = report.learning_rate; }, score);
  float end = 0;
  Trainer second(data, nullptr, options);
  second.set_position(first.position());
  second.train_epoch(
      [&](const StepReport& report) {
        CHECK(report.step.samples == 20);
        end = report.learning_rate;
      },
      score);
  CHECK(score.samples == 48 + 2 * 20);
  CHECK(end == whole_end);
  options.batch_size = 104;
  CHECK_THROWS_AS(Trainer(data, nullptr, options), muster::Error);
}

TEST_CASE("With an average of weights, that is what is evaluated") {
  const auto data = small_set();
  TrainerOptions options = small_options();
  const Outcome plain = run_alone(data, options);
  options.learner.ema_decay = 0.9;
  const Outcome averaged = run_alone(data, options);
  CHECK(averaged.hash == plain.hash);  // training is the same
  CHECK(averaged.test.mean_loss != plain.test.mean_loss);
}

TEST_CASE("An evaluation that is stopped puts the weights back where their average stood") {
  const auto data = small_set();
  TrainerOptions options = small_options();
  options.learner.ema_decay = 0.9;
  Trainer trainer(data, nullptr, options);
  Score score;
  trainer.train_epoch({}, score);
  const std::uint64_t trained = trainer.learner().parameter_hash();
  int asked = 0;
  trainer.votes = [&] { return Votes{false, ++asked == 2}; };  // after the first of three batches
  CHECK(trainer.evaluate(score) == Stop::told_to_stop);
  CHECK(trainer.learner().parameter_hash() == trained);
}

TEST_CASE("Weights decay, and biases do where all shall") {
  const auto data = small_set();
  const auto after_one_step = [&](double decay, bool all = false) {
    TrainerOptions options = small_options();
    options.learner.optimizer.weight_decay = decay;
    options.learner.optimizer.decay_all = all;
    Trainer trainer(data, nullptr, options);
    trainer.max_steps = 1;
    Score score;
    trainer.train_epoch({}, score);
    std::map<std::string, std::vector<float>> tensors;
    for (const auto& tensor : trainer.learner().model_tensors())
      tensors[tensor.name].assign(tensor.values, tensor.values + tensor.elements);
    return tensors;
  };
  const auto plain = after_one_step(0);
  const auto decayed = after_one_step(0.1);
  const auto all_decayed = after_one_step(0.1, true);
  for (const auto& [name, values] : plain) {
    INFO(name);
    CHECK((decayed.at(name) == values) == name.ends_with(".bias"));
    CHECK(all_decayed.at(name) != values);
  }
}

TEST_CASE("The rate of each step is that of its place in the run") {
  const auto data = small_set();  // 7 steps an epoch
  TrainerOptions options = small_options();
  options.epochs = 2;
  options.recipe.schedule = muster::optim::ScheduleKind::cosine;
  options.recipe.warmup_epochs = 3.0 / 7;
  Trainer trainer(data, nullptr, options);
  const auto schedule = make_schedule(options.recipe, 2, 7, 16);
  std::int64_t step = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    Score score;
    trainer.train_epoch([&](const StepReport& report) { CHECK(report.learning_rate == schedule.at(step++)); },
                        score);
    trainer.next_epoch();
  }
  CHECK(step == 14);
}

TEST_CASE("Each epoch has an order of its own") {
  const auto data = small_set();
  const auto after_first_step_of = [&](int epoch) {
    Trainer trainer(data, nullptr, small_options());
    trainer.set_position({epoch, 0, 0, 0, 0});
    trainer.max_steps = 1;
    Score score;
    trainer.train_epoch({}, score);
    return trainer.learner().parameter_hash();
  };
  CHECK(after_first_step_of(0) == after_first_step_of(0));
  CHECK(after_first_step_of(0) != after_first_step_of(1));
}

TEST_CASE("Test images are scored as they are, however training images are changed") {
  const auto data = small_set();
  TrainerOptions options = small_options();
  Score plain;
  Trainer(data, nullptr, options).evaluate(plain);
  options.loader.augmentation.crop_padding = 4;
  options.loader.augmentation.flip = true;
  Score beside_augmentation;
  Trainer(data, nullptr, options).evaluate(beside_augmentation);
  CHECK(beside_augmentation.mean_loss == plain.mean_loss);
}

TEST_CASE("More ranks than images, and batches of nothing, are errors") {
  const auto data = small_set();
  TrainerOptions options = small_options();
  options.batch_size = 0;
  CHECK_THROWS_AS(Trainer(data, nullptr, options), muster::Error);
  muster::data::ImageData one = data;
  one.train.labels.resize(1);
  one.train.pixels.resize(muster::data::kImageBytes);
  for (const std::string& error :
       run_shm_ranks(2, [&](ProcessGroup& group) { Trainer(one, &group, small_options()); }))
    CHECK(error.find("start fewer ranks") != std::string::npos);
}

TEST_CASE("Where one rank's loss is no longer a number, it says so and the others learn whose") {
  const auto data = small_set();
  const auto errors = run_shm_ranks(3, [&](ProcessGroup& group) {
    TrainerOptions options = small_options();
    if (group.rank() == 1) options.loader.normalization = {{0, 0, 0}, {0, 0, 0}};
    Trainer trainer(data, &group, options);
    Score score;
    trainer.train_epoch({}, score);
  });
  CHECK(errors[1].find("step 1: the loss of rank 1 is no longer a number, first in layer conv1") == 0);
  CHECK(contains(errors[1], "try a smaller learning rate, or clip the norm"));
  for (const int other : {0, 2})
    CHECK(errors[static_cast<std::size_t>(other)].find("rank 1 gave up") != std::string::npos);
}

TEST_CASE("Test images whose loss is no longer a number are an error, too") {
  auto data = small_set();
  TrainerOptions options = small_options();
  options.loader.normalization = {{0, 0, 0}, {0, 0, 0}};
  Trainer trainer(data, nullptr, options);
  Score score;
  CHECK_THROWS_WITH(trainer.evaluate(score), Contains("is no longer a number, first in layer conv1"));
}

TEST_CASE("A parameter that changes on one rank alone is found at the next comparison, with its rank") {
  const auto data = small_set();
  TrainerOptions options = small_options();
  options.check_every = 2;
  const auto errors = run_shm_ranks(3, [&](ProcessGroup& group) {
    Trainer trainer(data, &group, options);
    Score score;
    trainer.train_epoch(
        [&](const StepReport& report) {
          if (group.rank() != 1 || report.position.step != 1) return;
          float& weight = trainer.learner().model_tensors()[2].values[7];
          weight = -weight;
        },
        score);
  });
  for (const std::string& error : errors) {
    INFO(error);
    CHECK(error.find("step 2: parameter conv2.weight of rank 1 differs from that of the other ranks") == 0);
  }
}

TEST_CASE("The trace of a training names the rank that keeps the others waiting") {
  const auto data = small_set();
  const std::string path = "/dev/null";
  TrainerOptions options = small_options();
  options.batch_size = 4;
  const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
    Trainer trainer(data, &group, options);
    muster::train::TraceRecorder recorder;
    trainer.learner().record(&recorder);
    Score score;
    trainer.train_epoch(
        [&](const StepReport&) {
          if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        },
        score);
    const std::string note = muster::train::write_trace(path, recorder, {}, "n00", &group);
    // In the first step nobody was late, and a busy machine may have been late itself in others.
    require(note.find("rank 1 arrives last in ") == 0 && note.find(" of 13 steps") != std::string::npos,
            note.c_str());
  });
  for (const std::string& error : errors) CHECK(error == "");
}

}  // namespace trainer_test
