// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/call.hpp"

#include <cstddef>

namespace muster::test {

inline Operation operation_of(Collective collective, DataType type, std::size_t count, const void* in,
                              void* out) {
  Operation operation;
  operation.call.collective = collective;
  operation.call.type = type;
  operation.call.count = count;
  operation.in = in;
  operation.out = out;
  return operation;
}

}  // namespace muster::test
