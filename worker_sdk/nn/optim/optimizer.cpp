// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/optim/optimizer.hpp"

#include "muster/error.hpp"

#include <cmath>
#include <utility>

namespace muster::optim {
namespace {

/// Calls `apply(begin, end, decays)` for the pieces of [begin, end), cut where decay begins and ends.
template <typename Apply>
void for_each_piece(const std::vector<ArenaRange>& decay, std::size_t begin, std::size_t end,
                    const Apply& apply) {
  for (const ArenaRange& range : decay) {
    if (begin >= end) return;
    if (range.end <= begin) continue;
    if (range.begin >= end) break;
    if (range.begin > begin) apply(begin, range.begin, false);
    const std::size_t from = range.begin > begin ? range.begin : begin;
    const std::size_t to = range.end < end ? range.end : end;
    apply(from, to, true);
    begin = to;
  }
  if (begin < end) apply(begin, end, false);
}

struct SgdFactors {
  float rate;
  float scale;
  float momentum;
  float decay;
};

void plain(float* values, const float* gradients, std::size_t count, const SgdFactors& f) {
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < count; ++i)
    values[i] -= f.rate * (f.scale * gradients[i] + f.decay * values[i]);
}

void heavy_ball(float* values, const float* gradients, float* velocity, std::size_t count,
                const SgdFactors& f) {
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = f.scale * gradients[i] + f.decay * values[i];
    const float next = f.momentum * velocity[i] + gradient;
    velocity[i] = next;
    values[i] -= f.rate * next;
  }
}

void nesterov(float* values, const float* gradients, float* velocity, std::size_t count,
              const SgdFactors& f) {
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = f.scale * gradients[i] + f.decay * values[i];
    const float next = f.momentum * velocity[i] + gradient;
    velocity[i] = next;
    values[i] -= f.rate * (gradient + f.momentum * next);
  }
}

/// Stochastic gradient descent as torch.optim.SGD defines it, without dampening (PyTorch documentation,
/// "SGD"):
///   g = gradient + weight decay * value;  v = momentum * v + g;
///   value -= rate * v, with Nesterov rate * (g + momentum * v).
class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, Arena arena)
      : Optimizer(std::move(arena)),
        options_(options),
        velocity_(options.momentum > 0 ? arena_.elements : 0) {}

  void step_at(float* first_value, const float* first_gradient, std::size_t begin, std::size_t end,
               float learning_rate, float gradient_scale) override {
    for_each_piece(arena_.decay, begin, end, [&](std::size_t from, std::size_t to, bool decays) {
      const SgdFactors factors{learning_rate, gradient_scale, static_cast<float>(options_.momentum),
                               decays ? static_cast<float>(options_.weight_decay) : 0.0F};
      float* values = first_value + (from - begin);
      const float* gradients = first_gradient + (from - begin);
      if (velocity_.empty())
        plain(values, gradients, to - from, factors);
      else if (options_.nesterov)
        nesterov(values, gradients, velocity_.data() + from, to - from, factors);
      else
        heavy_ball(values, gradients, velocity_.data() + from, to - from, factors);
    });
  }

  std::vector<StateArena> state() override {
    if (velocity_.empty()) return {};
    return {{"momentum", velocity_}};
  }

 private:
  const OptimizerOptions options_;
  std::vector<float> velocity_;  ///< empty without momentum
};

/// Everything that is the same for all elements of one step.
struct AdamFactors {
  float scale;
  float beta1;
  float one_less_beta1;
  float beta2;
  float one_less_beta2;
  float epsilon;
  float step_size;        ///< rate / (1 - beta1^t)
  float root_correction;  ///< sqrt(1 - beta2^t)
  float shrink;           ///< of the value, before: AdamW
  float decay;            ///< into the gradient: Adam
};

void update(float* values, const float* gradients, float* mean, float* square, std::size_t count,
            const AdamFactors& f) {
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < count; ++i) {
    const float value = values[i] * f.shrink;
    const float gradient = f.scale * gradients[i] + f.decay * value;
    const float m = f.beta1 * mean[i] + f.one_less_beta1 * gradient;
    const float s = f.beta2 * square[i] + f.one_less_beta2 * gradient * gradient;
    mean[i] = m;
    square[i] = s;
    values[i] = value - f.step_size * (m / (std::sqrt(s) / f.root_correction + f.epsilon));
  }
}

/// Adam (Kingma & Ba, ICLR 2015) and AdamW (Loshchilov & Hutter, ICLR 2019) as torch.optim defines them:
///   m = beta1 m + (1 - beta1) g;  s = beta2 s + (1 - beta2) g^2;
///   value -= rate / (1 - beta1^t) * m / (sqrt(s) / sqrt(1 - beta2^t) + epsilon).
/// Adam adds weight decay * value to g; AdamW scales the value by 1 - rate * weight decay first.
class Adam final : public Optimizer {
 public:
  Adam(const OptimizerOptions& options, Arena arena)
      : Optimizer(std::move(arena)),
        options_(options),
        decoupled_(options.kind == "adamw"),
        mean_(arena_.elements),
        square_(arena_.elements) {}

  void step_at(float* values, const float* gradients, std::size_t begin, std::size_t end, float learning_rate,
               float gradient_scale) override {
    const auto t = static_cast<double>(steps());
    const double rate = static_cast<double>(learning_rate);
    AdamFactors factors{};
    factors.scale = gradient_scale;
    factors.beta1 = static_cast<float>(options_.beta1);
    factors.one_less_beta1 = static_cast<float>(1 - options_.beta1);
    factors.beta2 = static_cast<float>(options_.beta2);
    factors.one_less_beta2 = static_cast<float>(1 - options_.beta2);
    factors.epsilon = static_cast<float>(options_.epsilon);
    factors.step_size = static_cast<float>(rate / (1 - std::pow(options_.beta1, t)));
    factors.root_correction = static_cast<float>(std::sqrt(1 - std::pow(options_.beta2, t)));
    for_each_piece(arena_.decay, begin, end, [&](std::size_t from, std::size_t to, bool decays) {
      const double decay = decays ? options_.weight_decay : 0;
      factors.shrink = decoupled_ ? static_cast<float>(1 - rate * decay) : 1.0F;
      factors.decay = decoupled_ ? 0.0F : static_cast<float>(decay);
      update(values + (from - begin), gradients + (from - begin), mean_.data() + from, square_.data() + from,
             to - from, factors);
    });
  }

  std::vector<StateArena> state() override { return {{"exp_avg", mean_}, {"exp_avg_sq", square_}}; }

 private:
  const OptimizerOptions options_;
  const bool decoupled_;
  std::vector<float> mean_;
  std::vector<float> square_;
};

void require(bool holds, const std::string& text) {
  if (!holds) throw Error(ErrorCode::invalid_argument, text);
}

void require_share(double value, const char* name) {
  require(value >= 0 && value < 1,
          std::string(name) + " " + std::to_string(value) + "; give 0 or more, below 1");
}

}  // namespace

std::vector<std::string> optimizer_names() {
  return {"sgd", "adam", "adamw"};
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, Arena arena) {
  require_share(options.momentum, "momentum");
  require_share(options.beta1, "beta1");
  require_share(options.beta2, "beta2");
  require(options.weight_decay >= 0,
          "weight decay " + std::to_string(options.weight_decay) + "; give 0 or more");
  require(options.epsilon > 0, "epsilon must be above 0: it keeps the quotient finite");
  require(!options.nesterov || options.momentum > 0, "Nesterov's form needs a momentum above 0");
  if (options.kind == "sgd") return std::make_unique<Sgd>(options, std::move(arena));
  if (options.kind == "adam" || options.kind == "adamw")
    return std::make_unique<Adam>(options, std::move(arena));
  throw Error(ErrorCode::invalid_argument,
              "no optimizer is called " + options.kind + "; give sgd, adam or adamw");
}

}  // namespace muster::optim
