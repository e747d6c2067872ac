// SPDX-License-Identifier: Apache-2.0
// The layers of models (nn/layers.hpp) on this machine's processors.
#pragma once

#include "worker_sdk/trainer/nn/cpu/batch_norm.hpp"
#include "worker_sdk/trainer/nn/cpu/convolution.hpp"
#include "worker_sdk/trainer/nn/cpu/linear.hpp"
#include "worker_sdk/trainer/nn/cpu/pool.hpp"
#include "worker_sdk/trainer/nn/cpu/room.hpp"

#include <cstdint>

namespace muster::nn::cpu {

struct Layers {
  using Options = NetworkOptions;
  using Room = cpu::Room;
  using Element = void;  ///< float or bf16, as the format says
  using Feature = float;
  using Sign = std::uint16_t;
  using NormGradient = BackwardArgs;
  using MaxPool = cpu::MaxPool;
  using AveragePool = cpu::AveragePool;
  using BiasPool = cpu::BiasPool;

  struct Convolution : cpu::Convolution {
    Convolution(Room& room, const ConvolutionSize& size)
        : cpu::Convolution(room.runtime(), {size.in, size.out, size.side, size.kernel, size.stride,
                                            room.format(), size.in == kColours}) {
      room.add(*this);
    }
  };

  struct Norm : BatchNorm {
    Norm(const Room& room, const MapExtent& extent) : BatchNorm(room.shape(extent), room.exchange()) {}
  };

  struct Hidden : HiddenLinear {
    Hidden(const Room& room, std::int64_t in, std::int64_t out) : HiddenLinear(room.runtime(), {in, out}) {}
  };

  struct Head : Linear {
    Head(const Room& room, std::int64_t in, std::int64_t out) : Linear(room.runtime(), {in, out}) {}
  };
};

static_assert(LayerSet<Layers>);

}  // namespace muster::nn::cpu
