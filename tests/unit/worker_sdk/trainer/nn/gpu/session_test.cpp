// SPDX-License-Identifier: Apache-2.0
// Whole steps as a GPU makes them, on a device of the host's, against a plain loop over the CPU's parts.
#include "worker_sdk/trainer/nn/gpu/session/session.hpp"

#include "muster/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/worker_sdk/trainer/nn/gpu/host_ops.hpp"
#include "worker_sdk/comm/reduce.hpp"
#include "worker_sdk/trainer/data/images.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <cmath>
#include <numeric>

namespace muster::nn::gpu {
namespace {

data::ImageData some_data() {
  data::SyntheticOptions options;
  options.train_images = 40;
  options.test_images = 10;
  return data::make_synthetic(options);
}

SessionOptions small_options() {
  SessionOptions options;
  options.model = "small-cnn";
  options.precision = Precision::f32;
  options.batch = 3;
  options.optimizer.weight_decay = 0.01;
  options.label_smoothing = 0.1F;
  options.augmentation = {4, true, 5};
  options.reducer.first_bucket_bytes = options.reducer.last_bucket_bytes = 4096;
  options.reducer.bucket_bytes = 65536;
  return options;
}

/// The same steps by the CPU's network, loss, loader and optimizer.
class Reference {
 public:
  explicit Reference(const SessionOptions& options)
      : options_(options),
        layout_(parallel::plan_buckets(model_spec(options.model).parameters, options.reducer)),
        network_(make_network(options.model, {})) {
    values_.resize(layout_.elements);
    gradients_.resize(layout_.elements);
    for (std::size_t i = 0; i < spec().parameters.size(); ++i)
      slots_.push_back({&values_[layout_.offsets[i]], &gradients_[layout_.offsets[i]]});
    initialize(spec(), slots_, 3);
    network_->bind(slots_, {});
    optim::Arena arena = {values_.data(), gradients_.data(), values_.size(), {}};
    // Ascending: the last parameter lies first.
    for (std::size_t i = spec().parameters.size(); i-- > 0;)
      if (spec().parameters[i].decay)
        arena.decay.push_back({layout_.offsets[i], layout_.offsets[i] + spec().parameters[i].elements()});
    optimizer_ = optim::make_optimizer(options.optimizer, arena);
  }

  const ModelSpec& spec() const { return network_->spec(); }

  double step(const data::Images& images, std::span<const std::uint32_t> batch, int epoch, float rate,
              std::size_t samples) {
    std::vector<float> input(batch.size() * data::kImageBytes);
    std::vector<std::uint8_t> labels(batch.size());
    std::vector<float> gradient(batch.size() * 10);
    data::gather(images, batch, options_.normalization, options_.augmentation, epoch, input.data(),
                 labels.data());
    network_->parameters_changed();
    const float* logits =
        network_->forward(input.data(), static_cast<std::int64_t>(batch.size()), Mode::train);
    const BatchScore score = softmax_cross_entropy(logits, labels.data(), batch.size(), 10, gradient.data(),
                                                   static_cast<double>(options_.label_smoothing));
    network_->backward(gradient.data(), [](std::size_t) {});
    optimizer_->begin_step();
    optimizer_->step(0, values_.size(), rate, 1.0F / static_cast<float>(samples));
    return score.loss;
  }

  const std::vector<ParameterSlot>& slots() const { return slots_; }

 private:
  const SessionOptions options_;
  const parallel::BucketLayout layout_;
  std::unique_ptr<Network> network_;
  std::vector<float> values_, gradients_;
  std::vector<ParameterSlot> slots_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

void start_as(const Reference& reference, Session& session) {
  for (std::size_t i = 0; i < reference.slots().size(); ++i)
    session.write_parameter(i, reference.slots()[i].value);
}

void require_near(const Reference& reference, Session& session) {
  for (std::size_t i = 0; i < reference.slots().size(); ++i) {
    const ParameterSpec& parameter = reference.spec().parameters[i];
    std::vector<float> values(parameter.elements());
    session.read_parameter(i, values.data());
    double difference = 0;
    for (std::size_t k = 0; k < values.size(); ++k)
      difference = std::max(difference, std::abs(static_cast<double>(values[k]) -
                                                 static_cast<double>(reference.slots()[i].value[k])));
    CAPTURE(parameter.name);
    CHECK(difference < 2e-5);
  }
}

}  // namespace

TEST_CASE("recorded steps train as the CPU does, over epochs and batches of two sizes", "[gpu]") {
  const data::ImageData data = some_data();
  SessionOptions options = small_options();
  options.optimizer.kind = GENERATE(as<std::string>(), "sgd", "adamw");
  // Adam divides by the size of a gradient: where that is next to nothing its last bits would become a step.
  options.optimizer.epsilon = 1e-3;
  const float rate = options.optimizer.kind == "sgd" ? 0.05F : 0.001F;
  HostOps ops;
  Session session(options, ops, data.train, data.test, {});
  Reference reference(options);
  start_as(reference, session);
  const std::vector<std::uint32_t> order = {3, 9, 27, 1, 0, 39, 5};
  double loss = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    session.begin_epoch(order, epoch);
    for (const auto& [position, count] : {std::pair<std::size_t, std::size_t>{0, 3}, {3, 3}, {6, 1}}) {
      session.step(position, count, rate / static_cast<float>(1 + position));
      loss += reference.step(data.train, std::span(order).subspan(position, count), epoch,
                             rate / static_cast<float>(1 + position), count);
    }
  }
  require_near(reference, session);
  CHECK(session.is_recorded(3));
  CHECK(session.is_recorded(1));
  CHECK(ops.captures() == 2);
  CHECK(ops.sides() > 6 * 2);
  const SessionScore score = session.take_score();
  CHECK(score.images == 14);
  CHECK(score.loss == Approx(loss).epsilon(1e-4));
  CHECK(session.take_score().images == 0);
}

TEST_CASE("the average of weights follows them, with momentum and without", "[gpu]") {
  const data::ImageData data = some_data();
  SessionOptions options = small_options();
  options.optimizer.kind = "sgd";
  options.optimizer.momentum = GENERATE(0.0, 0.9);
  CAPTURE(options.optimizer.momentum);
  options.average_decay = 0.8;
  HostOps ops;
  Session session(options, ops, data.train, data.test, {});
  start_as(Reference(options), session);
  const std::vector<std::uint32_t> order = {3, 9, 27, 1, 0, 39};
  session.begin_epoch(order, 0);
  const std::size_t floats = session.layout().elements;
  std::vector<float> values(floats);
  std::vector<float> wanted(floats);
  for (const std::size_t position : {std::size_t{0}, std::size_t{3}}) {
    session.step(position, 3, 0.05F);
    session.read_values(values.data());
    for (std::size_t i = 0; i < floats; ++i)
      wanted[i] = position == 0 ? values[i] : wanted[i] + 0.2F * (values[i] - wanted[i]);
  }
  REQUIRE(session.state_names().back() == "ema");
  std::vector<float> average(floats);
  session.read_state(session.state_names().size() - 1, average.data());
  double difference = 0;
  for (std::size_t i = 0; i < floats; ++i)
    difference = std::max(difference, std::abs(static_cast<double>(average[i] - wanted[i])));
  CHECK(difference < 1e-6);
}

TEST_CASE("a gradient is the sum over ranks divided by the samples of all", "[gpu]") {
  const data::ImageData data = some_data();
  SessionOptions options = small_options();
  options.augmentation = {};
  options.optimizer.kind = "sgd";
  HostOps ops;
  // The other rank has the same gradients and as many samples: sums double, the mean stays.
  std::vector<std::pair<float*, std::size_t>> reduced;
  Session session(options, ops, data.train, data.test,
                  [&](std::size_t, float* values, std::size_t count, void*) {
                    reduced.emplace_back(values, count);
                    ops.put([=] {
                      for (std::size_t i = 0; i < count; ++i) values[i] *= 2;
                    });
                  });
  Reference reference(options);
  start_as(reference, session);
  std::vector<std::uint32_t> order(6);
  std::iota(order.begin(), order.end(), 0U);
  session.begin_epoch(order, 0);
  session.step(0, 3, 0.05F);
  session.step(3, 3, 0.05F);
  reference.step(data.train, std::span(order).subspan(0, 3), 0, 0.05F, 3);
  reference.step(data.train, std::span(order).subspan(3, 3), 0, 0.05F, 3);
  require_near(reference, session);
  // Every float once in each of the two steps (one run, one recorded), in the same order, without gaps.
  CHECK(reduced.size() % 2 == 0);
  CHECK(reduced.size() > 4);
  for (std::size_t i = 1; i < reduced.size() / 2; ++i)
    CHECK(reduced[i].first == reduced[i - 1].first + reduced[i - 1].second);
}

TEST_CASE("a rank without images steps with what the others have, or not at all", "[gpu]") {
  const data::ImageData data = some_data();
  SessionOptions options = small_options();
  HostOps ops;
  const bool others = GENERATE(true, false);
  Session session(options, ops, data.train, data.test,
                  [&](std::size_t, float* values, std::size_t count, void*) {
                    ops.put([=] {
                      for (std::size_t i = 0; others && i < count; ++i) values[i] += 1;
                    });
                  });
  Reference reference(options);
  start_as(reference, session);
  session.begin_epoch({}, 0);
  session.step(0, 0, 0.5F);
  std::vector<float> bias(10);
  session.read_parameter(7, bias.data());
  // The other rank's gradient is 1 and its samples are 1: a step of the rate.
  const float wanted = reference.slots()[7].value[0] - (others ? 0.5F : 0.0F);
  CHECK(static_cast<double>(bias[0]) == Approx(static_cast<double>(wanted)).epsilon(1e-6));
}

TEST_CASE("with statistics of all ranks, ranks record every part of a step together", "[gpu]") {
  const data::ImageData data = some_data();
  SessionOptions options = small_options();
  options.micro_batches = 4;
  options.sum_statistics = [](double*, std::size_t, void*) {};
  using Counts = std::vector<std::size_t>;
  // Steps of all ranks' images, and what each of two ranks has of them: parts that both have had alone, parts
  // that are alike within a step of one rank alone.
  const auto [shape, first, second] =
      GENERATE(table<std::size_t, Counts, Counts>({{5, {3, 0}, {2, 0}}, {17, {3, 3, 3, 0}, {3, 3, 2, 0}}}));
  CAPTURE(shape);
  HostOps ops_of_first;
  HostOps ops_of_second;
  Session one(options, ops_of_first, data.train, data.test, {});
  Session two(options, ops_of_second, data.train, data.test, {});
  std::vector<std::uint32_t> order(12);
  std::iota(order.begin(), order.end(), 0U);
  one.begin_epoch(order, 0);
  two.begin_epoch(order, 0);
  for (const bool full : {true, true, false, false, false}) {
    const Counts whole(first.size(), 3);
    const std::size_t size = full ? 2 * 3 * first.size() : shape;
    one.step(0, full ? whole : first, 0.01F, size);
    two.step(0, full ? whole : second, 0.01F, size);
    CAPTURE(full);
    CHECK(ops_of_first.captures() == ops_of_second.captures());
  }
  CHECK(static_cast<std::size_t>(ops_of_first.captures()) == 2 * first.size());
}

TEST_CASE("an evaluation counts every test image once and changes nothing", "[gpu]") {
  const data::ImageData data = some_data();
  SessionOptions options = small_options();
  options.batch = 4;
  HostOps ops;
  Session session(options, ops, data.train, data.test, {});
  Reference reference(options);
  start_as(reference, session);
  const SessionScore whole = session.evaluate(0, 10);
  const SessionScore first = session.evaluate(0, 3);
  const SessionScore second = session.evaluate(3, 10);
  CHECK(whole.images == 10);
  CHECK(first.loss + second.loss == Approx(whole.loss));
  CHECK(first.correct + second.correct == whole.correct);
  require_near(reference, session);
}

TEST_CASE("weights are packed once for all batches that are evaluated, and anew when they changed", "[gpu]") {
  class Counting final : public HostOps {
   public:
    void launch(KernelNumber number, const void* kernel, const Grid& grid) override {
      packed += number == KernelNumber::pack_weights_f32 ? 1 : 0;
      HostOps::launch(number, kernel, grid);
    }

    int packed = 0;
  };

  const data::ImageData data = some_data();
  Counting ops;
  Session session(small_options(), ops, data.train, data.test, {});
  start_as(Reference(small_options()), session);
  const auto packed_by = [&](const auto& work) {
    const int before = ops.packed;
    work();
    return ops.packed - before;
  };
  const auto evaluate = [&] { session.evaluate(0, 4); };
  CHECK(packed_by(evaluate) == 4);
  CHECK(packed_by(evaluate) == 0);
  const std::vector<std::uint32_t> order = {1, 2, 3};
  session.begin_epoch(order, 0);
  session.step(0, 3, 0.1F);
  const SessionScore score = session.evaluate(0, 4);
  std::vector<float> bias(10, 3.0F);
  bias[2] = 100.0F;
  session.write_parameter(7, bias.data());
  CHECK(packed_by(evaluate) == 4);
  CHECK(session.evaluate(0, 4).loss != score.loss);
}

TEST_CASE("numbers of 16 bits are widened and rounded as the host's reductions do it", "[gpu]") {
  const DataType wire = GENERATE(DataType::f16, DataType::bf16);
  const HalfType type = {wire == DataType::f16};
  constexpr std::size_t kAll = 65536;
  std::vector<std::uint16_t> bits(kAll);
  std::iota(bits.begin(), bits.end(), std::uint16_t{0});
  std::vector<float> wanted(kAll);
  const auto* const source = reinterpret_cast<const std::byte*>(bits.data());
  reduce_partly({&source, 1}, reinterpret_cast<std::byte*>(wanted.data()), kAll, wire, ReduceOp::sum);
  std::vector<float> between;
  for (std::size_t i = 0; i < kAll; ++i) {
    if (!std::isfinite(wanted[i])) continue;
    if (type.widened(bits[i]) != wanted[i]) FAIL("widened " << bits[i]);
    // Each number, and what lies halfway to the next one (a tie) and next to that.
    const float next = i + 1 < kAll && std::isfinite(wanted[i + 1]) ? wanted[i + 1] : wanted[i] * 1.01F;
    const float tie = wanted[i] + (next - wanted[i]) / 2;
    for (const float value : {wanted[i], std::nextafter(tie, 0.0F), tie, std::nextafter(tie, 1e30F)})
      between.push_back(value);
  }
  std::vector<std::uint16_t> rounded(between.size());
  finish(reinterpret_cast<const std::byte*>(between.data()), reinterpret_cast<std::byte*>(rounded.data()),
         between.size(), wire, ReduceOp::sum, 1);
  for (std::size_t i = 0; i < between.size(); ++i)
    if (type.rounded(between[i]) != rounded[i]) FAIL("rounded " << between[i]);
}

TEST_CASE("what cannot be is refused before it reaches the device", "[gpu]") {
  const data::ImageData data = some_data();
  HostOps ops;
  Session session(small_options(), ops, data.train, data.test, {});
  const std::vector<std::uint32_t> beyond = {40};
  CHECK_THROWS_AS(session.begin_epoch(beyond, 0), Error);
  const std::vector<std::uint32_t> two = {1, 2};
  session.begin_epoch(two, 0);
  CHECK_THROWS_AS(session.step(0, 4, 0.1F), Error);
  CHECK_THROWS_AS(session.step(2, 1, 0.1F), Error);
  CHECK_THROWS_AS(session.evaluate(0, 11), Error);
}

}  // namespace muster::nn::gpu
