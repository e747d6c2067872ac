// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/optim/optimizer.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "rendezvous/base/philox.hpp"
#include "tests/support/error_of.hpp"
#include "worker_sdk/nn/optim/ema.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

using muster::optim::Arena;
using muster::optim::ArenaRange;
using muster::optim::make_optimizer;
using muster::optim::OptimizerOptions;

namespace {

constexpr std::size_t kCount = 1003;
constexpr float kRate = 0.1F;
constexpr float kScale = 1.0F / 7;

std::vector<float> numbers(std::uint64_t stream) {
  muster::RandomStream random(3, stream);
  std::vector<float> values(kCount);
  for (float& value : values) value = 2 * random.unit() - 1;
  return values;
}

/// In place: the optimizer holds the address.
void fill(std::vector<float>& values, std::uint64_t stream) {
  const std::vector<float> drawn = numbers(stream);
  std::copy(drawn.begin(), drawn.end(), values.begin());
}

OptimizerOptions options(const char* kind, double decay = 0) {
  OptimizerOptions result;
  result.kind = kind;
  result.weight_decay = decay;
  return result;
}

/// Values after `steps` steps, each applied in pieces that end at `cuts`.
std::vector<float> train(const OptimizerOptions& chosen, int steps, std::vector<ArenaRange> decay,
                         std::vector<std::size_t> cuts = {}) {
  std::vector<float> values = numbers(0);
  std::vector<float> gradients(kCount);
  const auto optimizer = make_optimizer(chosen, {values.data(), gradients.data(), kCount, std::move(decay)});
  cuts.push_back(kCount);
  for (int step = 1; step <= steps; ++step) {
    fill(gradients, static_cast<std::uint64_t>(step));
    optimizer->begin_step();
    std::size_t begin = 0;
    for (const std::size_t end : cuts) {
      optimizer->step(begin, end, kRate, kScale);
      begin = end;
    }
  }
  CHECK(optimizer->steps() == steps);
  return values;
}

/// One element's run in double precision: (value, gradient, step) -> value.
using Formula = std::function<double(double, double, int, bool)>;

void check_against(const OptimizerOptions& chosen, const std::function<Formula()>& make) {
  constexpr int kSteps = 5;
  const std::vector<float> found = train(chosen, kSteps, {{100, 200}, {500, kCount}});
  const std::vector<float> start = numbers(0);
  double worst = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const Formula formula = make();
    double value = static_cast<double>(start[i]);
    for (int step = 1; step <= kSteps; ++step) {
      const double gradient = static_cast<double>(numbers(static_cast<std::uint64_t>(step))[i]) / 7;
      value = formula(value, gradient, step, (i >= 100 && i < 200) || i >= 500);
    }
    worst = std::max(worst, std::abs(value - static_cast<double>(found[i])));
  }
  CHECK(worst < 1e-6);
}

constexpr double kDecay = 0.05;
constexpr double kMomentum = 0.9;

}  // namespace

TEST_CASE("SGD with momentum decays only where it is told to") {
  check_against(options("sgd", kDecay), [] {
    return [velocity = 0.0](double value, double gradient, int, bool decays) mutable {
      velocity = kMomentum * velocity + gradient + (decays ? kDecay * value : 0);
      return value - 0.1 * velocity;
    };
  });
}

TEST_CASE("SGD without a momentum keeps no state") {
  OptimizerOptions plain = options("sgd", kDecay);
  plain.momentum = 0;
  check_against(plain, [] {
    return [](double value, double gradient, int, bool decays) {
      return value - 0.1 * (gradient + (decays ? kDecay * value : 0));
    };
  });
  CHECK(make_optimizer(plain, {})->state().empty());
}

TEST_CASE("Nesterov's form looks one step ahead") {
  OptimizerOptions ahead = options("sgd", kDecay);
  ahead.nesterov = true;
  check_against(ahead, [] {
    return [velocity = 0.0](double value, double gradient, int, bool decays) mutable {
      const double total = gradient + (decays ? kDecay * value : 0);
      velocity = kMomentum * velocity + total;
      return value - 0.1 * (total + kMomentum * velocity);
    };
  });
}

TEST_CASE("Adam puts the decay into the gradient, AdamW into the value") {
  for (const bool decoupled : {false, true})
    check_against(options(decoupled ? "adamw" : "adam", kDecay), [decoupled] {
      return [decoupled, m = 0.0, s = 0.0](double value, double gradient, int t, bool decays) mutable {
        const double decay = decays ? kDecay : 0;
        if (decoupled) value *= 1 - 0.1 * decay;
        const double g = gradient + (decoupled ? 0 : decay * value);
        m = 0.9 * m + 0.1 * g;
        s = 0.999 * s + 0.001 * g * g;
        const double root = std::sqrt(s / (1 - std::pow(0.999, t)));
        return value - 0.1 / (1 - std::pow(0.9, t)) * m / (root + 1e-8);
      };
    });
}

TEST_CASE("However a step is cut into ranges, the bits are the same") {
  for (const char* kind : {"sgd", "adam", "adamw"}) {
    const std::vector<ArenaRange> decay = {{3, 700}};
    const std::vector<float> whole = train(options(kind, kDecay), 3, decay);
    CHECK((train(options(kind, kDecay), 3, decay, {1, 64, 701, 999}) == whole));
    CHECK((train(options(kind, kDecay), 3, {}) != whole));
  }
}

TEST_CASE("State that is written and read back continues with the same bits") {
  for (const char* kind : {"sgd", "adam", "adamw"}) {
    std::vector<float> values = numbers(0);
    std::vector<float> gradients = numbers(1);
    const auto first = make_optimizer(options(kind), {values.data(), gradients.data(), kCount, {}});
    first->begin_step();
    first->step(0, kCount, kRate, kScale);
    const auto second = make_optimizer(options(kind), {values.data(), gradients.data(), kCount, {}});
    const auto from = first->state();
    const auto to = second->state();
    REQUIRE(from.size() == to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      CHECK(from[i].name == to[i].name);
      std::copy(from[i].values.begin(), from[i].values.end(), to[i].values.begin());
    }
    second->set_steps(first->steps());
    fill(gradients, 2);
    second->begin_step();
    second->step(0, kCount, kRate, kScale);
    CHECK((values == train(options(kind), 2, {})));
  }
}

TEST_CASE("Numbers that no recipe can mean are errors that say what to give") {
  const auto refused = [](const OptimizerOptions& wrong) {
    return muster::test::error_of([&] { make_optimizer(wrong, {}); });
  };
  CHECK(refused(options("lamb")).find("sgd, adam or adamw") != std::string::npos);
  CHECK(refused(options("sgd", -1)).find("0 or more") != std::string::npos);
  OptimizerOptions wrong = options("sgd");
  wrong.momentum = 1;
  CHECK(refused(wrong).find("momentum 1") != std::string::npos);
  wrong = options("adam");
  wrong.epsilon = 0;
  CHECK(refused(wrong).find("epsilon") != std::string::npos);
  wrong = options("sgd");
  wrong.momentum = 0;
  wrong.nesterov = true;
  CHECK(refused(wrong).find("Nesterov") != std::string::npos);
}

TEST_CASE("The average of weights starts as a copy and then follows slowly") {
  muster::optim::Ema average(2, 0.75);
  std::vector<float> values = {1, 2};
  average.update(values.data(), 0, 1, 1);
  average.update(&values[1], 1, 2, 1);
  const std::vector<float> next = {5, 2};
  average.update(next.data(), 0, 2, 2);
  average.swap(values);
  CHECK(values == std::vector<float>{2, 2});
  average.swap(values);
  CHECK(values == std::vector<float>{1, 2});
  CHECK_THROWS_AS(muster::optim::Ema(1, 1.0), muster::Error);
}
