// SPDX-License-Identifier: Apache-2.0
// The program's side of the table: a device whose code is loaded when it is wanted.
#pragma once

#include "worker_sdk/nn/gpu/ops.hpp"
#include "worker_sdk/nn/network.hpp"

#include <memory>
#include <string>

namespace muster::nn::gpu {

/// Whether this process can train on a device.
struct DeviceUsability {
  std::string reason_against;  ///< a whole sentence that says what to do; "" when it can
  std::string name;            ///< name of the device
  bool bf16 = false;           ///< computes in bf16 natively
};

/// The precision in which a device that can be used computes fastest.
inline Precision best_precision(const DeviceUsability& device) {
  return device.bf16 ? Precision::bf16 : Precision::f16;
}

/// Asks libmuster_<plugin>.so, which is looked for where the backends are (comm/plugin/loader.hpp), about the
/// device of a local rank: the one of that number, or the only one where CUDA_VISIBLE_DEVICES shows a single
/// one.
DeviceUsability probe_device(const std::string& plugin, int local_rank);

/// Throws Error (unsupported) as probe_device() says it. The plug-in is never unloaded.
std::unique_ptr<Ops> open_device(const std::string& plugin, int local_rank);

}  // namespace muster::nn::gpu
