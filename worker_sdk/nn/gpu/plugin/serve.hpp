// SPDX-License-Identifier: Apache-2.0
// The plug-in's side of the table.
#pragma once

#include "worker_sdk/nn/gpu/plugin/table.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace muster::nn::gpu {

/// The functions that a plug-in gives. Both throw Error.
struct DeviceMaker {
  /// Returns the name of a local rank's device, and sets whether it computes in bf16 natively.
  std::string (*probe)(int local_rank, bool& bf16);
  std::unique_ptr<Ops> (*open)(int local_rank);
};

/// A table over the Ops of one maker; the functions of all of them are the same but for the first two.
template <const DeviceMaker& maker>
const DeviceTable& serve();

namespace detail {

std::int32_t probe(const DeviceMaker& maker, std::int32_t local_rank, char* name, std::int32_t* bf16,
                   TableError* error);
std::int32_t open(const DeviceMaker& maker, std::int32_t local_rank, void** ops, TableError* error);
DeviceTable table_without_maker();

}  // namespace detail

template <const DeviceMaker& maker>
const DeviceTable& serve() {
  static const DeviceTable table = [] {
    DeviceTable made = detail::table_without_maker();
    made.probe = [](std::int32_t local_rank, char* name, std::int32_t* bf16, TableError* error) {
      return detail::probe(maker, local_rank, name, bf16, error);
    };
    made.open = [](std::int32_t local_rank, void** ops, TableError* error) {
      return detail::open(maker, local_rank, ops, error);
    };
    return made;
  }();
  return table;
}

}  // namespace muster::nn::gpu
