// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/nccl/comm.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace fake {
namespace {

/// Integers wrap, as on a GPU.
template <typename Sum>
Sum combine(Sum a, Sum b, int op) {
  if constexpr (std::is_integral_v<Sum>) {
    using Wide = std::make_unsigned_t<Sum>;
    if (op == ncclProd)
      return static_cast<Sum>(static_cast<std::uint64_t>(static_cast<Wide>(a)) * static_cast<Wide>(b));
    if (op == ncclSum) return static_cast<Sum>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
  switch (op) {
    case ncclProd:
      return static_cast<Sum>(a * b);
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return static_cast<Sum>(a + b);
  }
}

template <typename Element, typename Sum>
void reduce(const ncclComm& comm, const Descriptor& call, std::size_t first, std::size_t count,
            std::byte* out) {
  for (std::size_t i = 0; i < count; ++i) {
    Sum sum{};
    for (int peer = 0; peer < comm.size; ++peer) {
      Element element;
      std::memcpy(&element, comm.segment->area(peer) + (first + i) * sizeof(Element), sizeof(Element));
      sum = peer == 0 ? static_cast<Sum>(element) : combine<Sum>(sum, static_cast<Sum>(element), call.op);
    }
    if constexpr (std::is_floating_point_v<Sum>)
      if (call.op == ncclAvg) sum /= static_cast<Sum>(comm.size);
    const auto result = static_cast<Element>(sum);
    std::memcpy(out + i * sizeof(Element), &result, sizeof(Element));
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
    case ncclInt8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

void reduce_areas(const ncclComm& comm, const Descriptor& call, std::size_t first, std::size_t count,
                  std::byte* out) {
  switch (static_cast<ncclDataType_t>(call.type)) {
    case ncclUint8:
      return reduce<std::uint8_t, std::uint8_t>(comm, call, first, count, out);
    case ncclInt32:
      return reduce<std::int32_t, std::int32_t>(comm, call, first, count, out);
    case ncclInt64:
      return reduce<std::int64_t, std::int64_t>(comm, call, first, count, out);
    case ncclFloat16:
      return reduce<__half, float>(comm, call, first, count, out);
    case ncclBfloat16:
      return reduce<__nv_bfloat16, float>(comm, call, first, count, out);
    case ncclFloat32:
      return reduce<float, float>(comm, call, first, count, out);
    case ncclFloat64:
      return reduce<double, double>(comm, call, first, count, out);
    default:
      violate("type", "a type that the fake does not reduce");
  }
}

}  // namespace fake
