// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/optim/make_optimizer.hpp"

#include "muster/error.hpp"
#include "worker_sdk/trainer/optim/adam.hpp"
#include "worker_sdk/trainer/optim/sgd.hpp"

#include <utility>

namespace muster::optim {
namespace {

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
