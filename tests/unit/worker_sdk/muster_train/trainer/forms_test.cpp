// SPDX-License-Identifier: Apache-2.0
// Models in shards: the bits of ddp, what each form keeps and sends, and checkpoints that go from one form to
// another.
#include "catch.hpp"
#include "tests/unit/worker_sdk/muster_train/training.hpp"
#include "tests/unit/worker_sdk/nn/checkpoint/folder.hpp"
#include "worker_sdk/muster_train/checkpoint/checkpointing.hpp"
#include "worker_sdk/nn/models/make_network.hpp"
#include "worker_sdk/nn/segments.hpp"
#include "worker_sdk/parallel/compression.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace forms_test {

using namespace muster::train;
using muster::Form;
using muster::ProcessGroup;
using muster::ReducerOptions;
using muster::test::Folder;
using muster::test::run_shm_ranks;
using muster::test::small_set;

namespace {

constexpr Form kForms[] = {Form::ddp, Form::zero1, Form::zero2, Form::fsdp};

TrainerOptions small_cnn(Form form) {
  TrainerOptions options;
  options.batch_size = 4;
  options.learner.reducer.sharding.form = form;
  return options;
}

/// What a run leaves on rank 0.
struct Left {
  std::uint64_t hash = 0;
  double test_loss = 0;
};

Left left_by(int ranks, const muster::data::ImageData& data, const TrainerOptions& options, int epochs = 1) {
  std::vector<Left> left(static_cast<std::size_t>(ranks));
  const auto errors = run_shm_ranks(ranks, [&](ProcessGroup& group) {
    Trainer trainer(data, &group, options);
    Score score;
    for (int epoch = 0; epoch < epochs; ++epoch) {
      trainer.train_epoch({}, score);
      trainer.next_epoch();
    }
    trainer.evaluate(score);
    left[static_cast<std::size_t>(group.rank())] = {trainer.learner().parameter_hash(), score.mean_loss};
  });
  CHECK(errors == std::vector<std::string>(errors.size()));
  for (const Left& one : left) CHECK(one.hash == left[0].hash);
  return left[0];
}

/// Every form leaves what ddp leaves.
void check_bits(int ranks, const muster::data::ImageData& data, TrainerOptions options) {
  options.learner.reducer.sharding.form = Form::ddp;
  const Left wanted = left_by(ranks, data, options);
  for (const Form form : {Form::zero1, Form::zero2, Form::fsdp}) {
    options.learner.reducer.sharding.form = form;
    const Left left = left_by(ranks, data, options);
    INFO(ranks << " ranks, " << muster::name_of(form));
    CHECK(left.hash == wanted.hash);
    CHECK(left.test_loss == wanted.test_loss);
  }
}

/// What a step of one rank sends, and what it keeps.
struct Costs {
  std::uint64_t payload = 0;
  MemoryTable memory;

  double model() const {
    return static_cast<double>(memory.parameters + memory.gradients + memory.optimizer_state);
  }
};

Costs costs_of(int ranks, const TrainerOptions& options) {
  const auto data = small_set(8 * static_cast<std::size_t>(options.accumulation), 2);
  std::vector<Costs> costs(static_cast<std::size_t>(ranks));
  const auto errors = run_shm_ranks(ranks, [&](ProcessGroup& group) {
    Trainer trainer(data, &group, options);
    Score score;
    auto& own = costs[static_cast<std::size_t>(group.rank())];
    trainer.train_epoch([&](const StepReport& report) { own.payload = report.step.payload; }, score);
    own.memory = trainer.memory();
  });
  CHECK(errors == std::vector<std::string>(errors.size()));
  for (const Costs& one : costs) CHECK(one.payload == costs[0].payload);
  return costs[0];
}

constexpr double kMlpParameters = 8'407'050;

TrainerOptions mlp(Form form, int ranks) {
  TrainerOptions options = small_cnn(form);
  options.learner.model = "mlp-8";
  options.batch_size = 8 / static_cast<std::size_t>(ranks);
  options.learner.reducer.bucket_bytes = options.learner.reducer.first_bucket_bytes = 1 << 20;
  return options;
}

muster::parallel::BucketLayout layout_of(const TrainerOptions& options, int ranks) {
  ReducerOptions reducer = options.learner.reducer;
  const auto network = muster::nn::make_network(options.learner.model, {});
  for (const auto& unit : network->units()) reducer.sharding.unit_begins.push_back(unit.first);
  return muster::parallel::plan_buckets(network->spec().parameters, reducer, ranks);
}

/// Bytes of the two largest buckets that follow one another.
double largest_neighbours(const muster::parallel::BucketLayout& layout) {
  std::size_t largest = 0;
  for (std::size_t b = 0; b + 1 < layout.buckets.size(); ++b)
    largest = std::max(largest, layout.buckets[b].elements + layout.buckets[b + 1].elements);
  return static_cast<double>(largest * sizeof(float));
}

/// The laws of docs/parallel.md with momentum: O is P.
double law_of(Form form, double p, double n, double neighbours) {
  switch (form) {
    case Form::ddp:
      return 3 * p;
    case Form::zero1:
      return 2 * p + p / n;
    case Form::zero2:
      return p + 2 * p / n + neighbours;
    case Form::fsdp:
      return 3 * p / n + 2 * neighbours;
  }
  return 0;
}

}  // namespace

TEST_CASE("Every form leaves the bits of ddp: uneven batches, ranks without images, accumulation") {
  const auto data = small_set(45, 3);  // the last step has fewer images than ranks, and so have the tests
  for (const int ranks : {2, 4}) {
    TrainerOptions options = small_cnn(Form::ddp);
    options.accumulation = ranks == 2 ? 3 : 2;
    check_bits(ranks, data, options);
  }
}

TEST_CASE("Every form clips by the norm that ddp has, with an average, decay and Adam") {
  const auto data = small_set(37, 8);
  for (const int ranks : {2, 4}) {
    TrainerOptions options = small_cnn(Form::ddp);
    options.recipe.rate = 0.01;
    options.learner.optimizer.kind = ranks == 2 ? "adamw" : "sgd";
    options.learner.optimizer.weight_decay = 0.01;
    options.learner.ema_decay = 0.5;
    options.learner.reducer.max_norm = 0.5;
    options.learner.reducer.bucket_bytes = options.learner.reducer.first_bucket_bytes = 1 << 16;
    check_bits(ranks, data, options);
  }
}

TEST_CASE("Residual layers, batch norm over all ranks and units of several layers are the same in fsdp") {
  const auto data = small_set(4, 2);
  TrainerOptions options = small_cnn(Form::ddp);
  options.batch_size = 2;
  options.learner.model = "resnet18-imagenet-stem";
  options.learner.sync_batch_norm = true;
  const Left wanted = left_by(2, data, options);
  options.learner.reducer.sharding.form = Form::fsdp;
  options.learner.reducer.sharding.unit_bytes = std::size_t{4} << 20;
  CHECK(left_by(2, data, options).hash == wanted.hash);
}

TEST_CASE("However many units are gathered ahead, the bits are the same") {
  const auto data = small_set(8, 2);
  TrainerOptions options = small_cnn(Form::ddp);
  options.batch_size = 2;
  options.learner.model = "vit-tiny";
  options.learner.reducer.max_norm = 0.1;
  const Left wanted = left_by(2, data, options);
  options.learner.reducer.sharding.form = Form::fsdp;
  for (const std::size_t prefetch : {0U, 1U, 3U}) {
    options.learner.reducer.sharding.prefetch = prefetch;
    CHECK(left_by(2, data, options).hash == wanted.hash);
  }
}

TEST_CASE("Activations that are computed again leave the bits of every form") {
  const auto data = small_set(12, 2);
  TrainerOptions options = small_cnn(Form::ddp);
  options.batch_size = 2;
  options.accumulation = 2;
  options.learner.model = "mlp-8";
  options.learner.reducer.bucket_bytes = options.learner.reducer.first_bucket_bytes = 1 << 20;
  const Left wanted = left_by(2, data, options);
  for (const Form form : {Form::zero2, Form::fsdp})
    for (const char* const word : {"block", "sqrt", "3"})
      for (const std::size_t units : {0U, 9U}) {
        options.learner.reducer.sharding.prefetch = units == 0 ? 3 : 1;
        options.learner.reducer.sharding.form = form;
        options.learner.reducer.sharding.unit_bytes = units << 20;
        options.learner.activation_checkpoints = muster::nn::checkpoints_of(word);
        INFO(muster::name_of(form) << ", " << word << ", units of " << units << " MiB");
        CHECK(left_by(2, data, options).hash == wanted.hash);
      }
}

TEST_CASE("Each form sends what its law says, and keeps that, to a tenth of what it saves") {
  for (const int ranks : {2, 4}) {
    double whole = 0;
    for (const Form form : kForms) {
      TrainerOptions options = mlp(form, ranks);
      options.accumulation = form == Form::fsdp && ranks == 2 ? 3 : 1;
      const auto parts = static_cast<std::uint64_t>(options.accumulation);
      const auto layout = layout_of(options, ranks);
      const Costs costs = costs_of(ranks, options);
      INFO(ranks << " ranks, " << parts << " micro-batches, " << muster::name_of(form));
      CHECK(static_cast<double>(layout.elements) < 1.001 * kMlpParameters);
      const std::uint64_t times = form == Form::fsdp ? 2 * parts + 1 : 2;
      const std::uint64_t header = 2 * muster::parallel::kHeaderFloats * sizeof(float);
      // The last unit, at which forward turns, is gathered once.
      const std::uint64_t once = form == Form::fsdp ? parts * layout.buckets.front().elements : 0;
      CHECK(costs.payload == ((times * layout.elements - once) * sizeof(float) + header) *
                                 static_cast<std::uint64_t>(ranks - 1) / static_cast<std::uint64_t>(ranks));
      const double p = kMlpParameters * sizeof(float);
      // Gradients of micro-batches wait whole, in every form.
      const double found = costs.model() - (parts > 1 ? p : 0);
      if (form == Form::ddp) whole = found;
      const double saved = 3 * p - law_of(form, p, ranks, largest_neighbours(layout));
      CHECK(std::abs((whole - found) - saved) <= 0.1 * saved);
    }
  }
}

TEST_CASE(
    "What a form keeps is less than what the one before keeps, also of residual layers and by default") {
  for (const char* const model : {"mlp-8", "resnet18-imagenet-stem"}) {
    std::vector<MemoryTable> tables;
    for (const Form form : kForms) {
      TrainerOptions options = small_cnn(form);
      options.learner.model = model;
      tables.push_back(costs_of(2, options).memory);
    }
    INFO(model);
    CHECK(10 * tables[1].optimizer_state < 6 * tables[0].optimizer_state);
    CHECK(tables[2].gradients < tables[1].gradients);
    CHECK(tables[3].parameters < tables[2].parameters);
  }
}

TEST_CASE("Copies of weights in the kernels' layout are there as long as the weights") {
  const std::size_t kept = costs_of(2, small_cnn(Form::zero2)).memory.workspace;
  const std::size_t dropped = costs_of(2, small_cnn(Form::fsdp)).memory.workspace;
  CHECK(kept >= dropped + 32 * 64 * 9 * sizeof(float));
}

namespace {

/// The values of a run, of all ranks.
using State = std::map<std::string, std::vector<float>>;

/// Adds what this rank has.
void add(State& state, std::mutex& mutex, Learner& learner) {
  const std::lock_guard held(mutex);
  for (const auto& tensors : {learner.model_tensors(), learner.state_tensors()})
    for (const NamedTensor& tensor : tensors) {
      auto& values = state[tensor.name];
      values.resize(std::max(values.size(), tensor.first + tensor.elements));
      std::copy_n(tensor.values, tensor.elements, values.begin() + static_cast<std::ptrdiff_t>(tensor.first));
    }
}

/// A run that goes on in a folder for an epoch.
struct OneMore {
  State found;
  State left;
  std::vector<std::string> notes;
  std::vector<std::string> errors;
};

/// With options of each rank, where they are given.
OneMore one_more(const std::string& folder, int ranks, Form form,
                 const std::function<void(CheckpointOptions&, int)>& adjust = {}) {
  const auto data = small_set(16, 4);
  TrainerOptions options = small_cnn(form);
  options.batch_size = 8;
  options.learner.optimizer.kind = "adam";
  options.learner.ema_decay = 0.5;
  OneMore run;
  std::mutex mutex;
  run.errors = run_shm_ranks(ranks, [&](ProcessGroup& group) {
    CheckpointOptions checkpoints;
    checkpoints.folder = folder;
    if (adjust) adjust(checkpoints, group.rank());
    Trainer trainer(data, &group, options);
    Checkpointing checkpointing(checkpoints, options, trainer, &group);
    const std::vector<std::string> notes = checkpointing.begin();
    if (group.rank() == 0) run.notes = notes;
    add(run.found, mutex, trainer.learner());
    Score score;
    trainer.train_epoch({}, score);
    trainer.next_epoch();
    checkpointing.save_now();
    add(run.left, mutex, trainer.learner());
  });
  return run;
}

}  // namespace

TEST_CASE("A run goes on in another form, on any number of ranks, with the values that another one left") {
  const Folder changing;
  const Folder same;
  State left;
  const std::vector<std::pair<Form, int>> steps = {
      {Form::fsdp, 2},  {Form::ddp, 2},  {Form::zero1, 2}, {Form::fsdp, 4}, {Form::zero2, 3},
      {Form::zero1, 4}, {Form::fsdp, 1}, {Form::fsdp, 3},  {Form::ddp, 4},  {Form::zero2, 2}};
  for (const auto& [form, ranks] : steps) {
    INFO(muster::name_of(form) << " on " << ranks);
    const OneMore run = one_more(changing / "checkpoints", ranks, form);
    CHECK(run.errors == std::vector<std::string>(run.errors.size()));
    if (!left.empty()) CHECK(run.found == left);
    CHECK(run.left != run.found);
    left = run.left;
    // What the forms leave is what ddp leaves.
    CHECK(one_more(same / "checkpoints", ranks, Form::ddp).left == left);
  }
}

TEST_CASE("A checkpoint in shards that is damaged is passed over on all ranks, and said") {
  const Folder folder;
  const std::string run = folder / "checkpoints";
  const State first = one_more(run, 2, Form::fsdp).left;
  one_more(run, 2, Form::fsdp);
  const std::string second = run + "/000002-step-2";
  for (const char* const file : {"/model-1-of-2.safetensors", "/state-0-of-2.safetensors"}) {
    std::filesystem::resize_file(second + file, 20);
    const Folder copy;
    std::filesystem::copy(run, copy / "run", std::filesystem::copy_options::recursive);
    for (const Form form : {Form::zero2, Form::ddp}) {
      const OneMore again = one_more(copy / "run", 2, form);
      CHECK(again.errors == std::vector<std::string>(2));
      CHECK(again.found == first);
      REQUIRE(again.notes.size() == 2);
      CHECK_THAT(again.notes[0], Contains("skipped checkpoint " + (copy / "run/000002-step-2")) &&
                                     Contains(" has 20 bytes, its manifest says"));
      CHECK_THAT(again.notes[1], Contains("resumed from " + (copy / "run/000001-step-1")));
      std::filesystem::remove_all(copy / "run/000003-step-2");
    }
  }
}

TEST_CASE("A rank that does not see the folder of the others is named, when it reads and when it writes") {
  const Folder folder;
  const auto elsewhere = [&](CheckpointOptions& options, int rank) {
    if (rank == 1) options.folder = folder / "elsewhere";
  };
  const OneMore writing = one_more(folder / "run", 2, Form::fsdp, elsewhere);
  for (const std::string& error : writing.errors)
    CHECK_THAT(error,
               Contains("model-1-of-2.safetensors, which was written just now, is not seen by rank 0") &&
                   Contains("all hosts need the same folder"));
  CHECK(muster::checkpoint::list_checkpoints(folder / "run").empty());
  one_more(folder / "run", 2, Form::fsdp);
  const OneMore reading = one_more(folder / "run", 2, Form::fsdp, elsewhere);
  for (const std::string& error : reading.errors)
    CHECK_THAT(error,
               Contains("rank 1 does not see ") && Contains("/000001-step-1, and where the model is in"));
}

TEST_CASE(
    "A number of one rank's part that is not finite ends the run on all ranks, and nothing is written") {
  const Folder folder;
  const auto data = small_set(8, 2);
  TrainerOptions options = small_cnn(Form::fsdp);
  CheckpointOptions checkpoints;
  checkpoints.folder = folder / "run";
  const auto errors = run_shm_ranks(2, [&](ProcessGroup& group) {
    Trainer trainer(data, &group, options);
    Checkpointing checkpointing(checkpoints, options, trainer, &group);
    checkpointing.begin();
    Score score;
    trainer.train_epoch({}, score);
    for (const NamedTensor& tensor : trainer.learner().state_tensors())
      if (group.rank() == 1 && tensor.elements > 0) tensor.values[0] = std::nanf("");
    checkpointing.save_now();
  });
  CHECK_THAT(errors[1], Contains("is no longer finite, so no checkpoint of it is written"));
  CHECK_THAT(errors[0], Contains("rank 1: step 1: ") && Contains("is no longer finite"));
  CHECK(muster::checkpoint::list_checkpoints(checkpoints.folder).empty());
}

TEST_CASE("What a form cannot have, and ranks that differ in it, are errors before the first step") {
  const auto data = small_set(8, 2);
  const auto errors_of = [&](const std::function<void(TrainerOptions&, int)>& adjust) {
    return run_shm_ranks(2, [&](ProcessGroup& group) {
      TrainerOptions options = small_cnn(Form::zero1);
      adjust(options, group.rank());
      Trainer trainer(data, &group, options);
    });
  };
  for (const std::string& error : errors_of([](TrainerOptions&options, int) {
         options.learner.reducer.hook = muster::make_half_hook(muster::DataType::bf16);
       }))
    CHECK_THAT(error, Contains("the form zero1 sums gradients in f32"));
  for (const std::string& error : errors_of([](TrainerOptions&options, int rank) {
         options.learner.reducer.sharding.form = rank == 0 ? Form::zero1 : Form::fsdp;
       }))
    CHECK_THAT(error, Contains("the ranks train different models") && Contains("zero1") && Contains("fsdp"));
}

}  // namespace forms_test
