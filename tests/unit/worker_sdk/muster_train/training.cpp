// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/worker_sdk/muster_train/training.hpp"

#include "catch.hpp"
#include "worker_sdk/muster_train/data/synthetic.hpp"

#include <cmath>
#include <stdexcept>

#ifdef MUSTER_SANITIZED_THREADS
// oneDNN is not instrumented: the locks of its primitive cache, which the ranks share here, are not seen.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "race:libdnnl.so\n";
}
#endif

namespace muster::test {

data::ImageData small_set(std::size_t train_images, std::size_t test_images) {
  data::SyntheticOptions options;
  options.train_images = train_images;
  options.test_images = test_images;
  return data::make_synthetic(options);
}

void require(bool holds, const char* text) {
  if (!holds) throw std::runtime_error(text);
}

Outcome outcome_of(train::Trainer& trainer, int epochs) {
  Outcome outcome;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    require(trainer.train_epoch({}, outcome.train) == train::Stop::none, "an epoch did not end");
    trainer.next_epoch();
  }
  require(trainer.evaluate(outcome.test) == train::Stop::none, "an evaluation did not end");
  outcome.hash = trainer.learner().parameter_hash();
  for (const auto& tensor : trainer.learner().model_tensors())
    outcome.model.insert(outcome.model.end(), tensor.values, tensor.values + tensor.elements);
  return outcome;
}

Outcome run_world(int ranks, const data::ImageData& data, const train::TrainerOptions& options, int epochs,
                  const std::function<void(train::TrainerOptions&)>& adjust) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  const auto errors = run_shm_ranks(ranks, [&](ProcessGroup& group) {
    train::TrainerOptions own = options;
    if (adjust) adjust(own);
    train::Trainer trainer(data, &group, own);
    outcomes[static_cast<std::size_t>(group.rank())] = outcome_of(trainer, epochs);
  });
  for (const std::string& error : errors) CHECK(error == "");
  for (const Outcome& outcome : outcomes) CHECK(outcome.hash == outcomes[0].hash);
  return outcomes[0];
}

Outcome run_alone(const data::ImageData& data, const train::TrainerOptions& options, int epochs) {
  train::Trainer trainer(data, nullptr, options);
  return outcome_of(trainer, epochs);
}

double distance(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& start) {
  REQUIRE(a.size() == b.size());
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = double{a[i]} - b[i];
    const double way = double{b[i]} - (start.empty() ? 0.0F : start[i]);
    difference += apart * apart;
    size += way * way;
  }
  return std::sqrt(difference / size);
}

}  // namespace muster::test
