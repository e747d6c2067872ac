// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/traffic.hpp"

namespace muster {

std::uint64_t payload_times_size(const Operation& operation, int rank, int size) {
  const Call& call = operation.call;
  const auto ranks = static_cast<std::uint64_t>(size);
  const std::uint64_t others = ranks - 1;
  const std::uint64_t bytes = call.count * size_of(call.type);
  switch (call.collective) {
    case Collective::barrier:
    case Collective::allocate:
    case Collective::recv:
      return 0;
    case Collective::all_reduce:
      return 2 * bytes * others;
    case Collective::broadcast:
    case Collective::reduce:
      return bytes * others;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return bytes * others * ranks;
    case Collective::all_gather_v:
      return operation.counts[rank] * size_of(call.type) * others * ranks;
    case Collective::gather:
      return rank == call.root ? 0 : bytes * ranks;
    case Collective::scatter:
      return rank == call.root ? bytes * others * ranks : 0;
    case Collective::send:
      return bytes * ranks;
  }
  return 0;
}

}  // namespace muster
