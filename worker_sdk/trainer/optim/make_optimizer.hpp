// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/optim/optimizer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace muster::optim {

/// Names and defaults are PyTorch's, but the momentum's, which is what recipes for these networks use.
/// Doubles, as in Python: 1 - 0.999 rounded to a float early would be 5e-5 off.
struct OptimizerOptions {
  /// The optimizer: "sgd", "adam" or "adamw".
  std::string kind = "sgd";
  double momentum = 0.9;    ///< sgd
  bool nesterov = false;    ///< sgd; needs a momentum
  double weight_decay = 0;  ///< L2 for sgd and adam, decoupled for adamw; none on batch norm and biases
  double beta1 = 0.9;       ///< adam, adamw
  double beta2 = 0.999;     ///< adam, adamw
  double epsilon = 1e-8;    ///< adam, adamw
};

/// Throws Error (invalid_argument) for a kind that is none or a number that no recipe can mean.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, Arena arena);

/// The names of the optimizers: "sgd", "adam", "adamw".
std::vector<std::string> optimizer_names();

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

}  // namespace muster::optim
