// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/program/train_device.hpp"

#include "muster/error.hpp"
#include "worker_sdk/trainer/loop/device_learner.hpp"

#include <unistd.h>

#include <cstdint>

namespace muster::examples {
namespace {

constexpr const char* kPlugin = "cuda";

/// Whether it is worth loading some hundred megabytes of libraries to look closer.
bool has_driver() {
  return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}

bool all_can(bool can, World& world) {
  std::int32_t all = can ? 1 : 0;
  if (world.info().size > 1) world.group().all_reduce(&all, 1, DataType::i32, ReduceOp::min);
  return all != 0;
}

}  // namespace

bool may_use_device(const TrainOptions& options) {
  if (options.device == "auto")
    return has_driver() && train::refused_by_device(options.run.trainer.learner).empty();
  return options.device != "cpu";
}

ChosenDevice choose_device(TrainOptions& options, World& world) {
  ChosenDevice chosen;
  if (options.device == "cpu") return chosen;
  const bool must = options.device != "auto";
  const std::string refused = train::refused_by_device(options.run.trainer.learner);
  if (must && !refused.empty()) throw Error(ErrorCode::invalid_argument, refused);
  const int local_rank = world.info().local_rank;
  nn::gpu::DeviceUsability found = {"", "", false};
  if (must || (has_driver() && refused.empty())) {
    found = nn::gpu::probe_device(kPlugin, local_rank);
    chosen.note = found.reason_against;
  } else {
    found.reason_against = "there is no driver of a GPU";
    chosen.note = has_driver() ? refused : "";
  }
  if (must && !found.reason_against.empty()) throw Error(ErrorCode::unsupported, found.reason_against);
  if (!must && !all_can(found.reason_against.empty(), world)) {
    if (found.reason_against.empty()) chosen.note = "another rank cannot use one";
    return chosen;
  }
  chosen.ops = nn::gpu::open_device(kPlugin, local_rank);
  chosen.name = found.name;
  options.run.trainer.device = chosen.ops.get();
  if (options.best_precision)
    options.run.trainer.learner.precision = found.bf16 ? nn::Precision::bf16 : nn::Precision::f32;
  return chosen;
}

}  // namespace muster::examples
