// SPDX-License-Identifier: Apache-2.0
// The layers of models (nn/layers.hpp) on this machine's processors.
#pragma once

#include "worker_sdk/nn/cpu/attention.hpp"
#include "worker_sdk/nn/cpu/batch_norm.hpp"
#include "worker_sdk/nn/cpu/convolution.hpp"
#include "worker_sdk/nn/cpu/embedding.hpp"
#include "worker_sdk/nn/cpu/layer_norm.hpp"
#include "worker_sdk/nn/cpu/linear.hpp"
#include "worker_sdk/nn/cpu/map_rows.hpp"
#include "worker_sdk/nn/cpu/pool.hpp"
#include "worker_sdk/nn/cpu/room.hpp"
#include "worker_sdk/nn/cpu/rows.hpp"
#include "worker_sdk/nn/row_layers.hpp"

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
  using MapBias = cpu::MapBias;
  using Flatten = cpu::Flatten;
  using Tokens = cpu::Tokens;
  using Grey = cpu::Grey;
  using Relu = cpu::Relu;
  using Gelu = cpu::Gelu;
  using LayerNorm = cpu::LayerNorm;
  using Attention = cpu::Attention;
  using Positions = cpu::Positions;
  using Embedding = cpu::Embedding;
  using Dropout = cpu::Dropout;
  using TokenMean = cpu::TokenMean;
  using Sum = cpu::Sum;

  struct Convolution : cpu::Convolution {
    Convolution(Room& room, const ConvolutionSize& size)
        : cpu::Convolution(room.runtime(),
                           {size.in, size.out, size.side, size.kernel, size.stride, room.format(),
                            size.of_images, size.padding},
                           room.keeps_weight_copies()) {
      room.add(*this);
    }
  };

  struct Norm : BatchNorm {
    Norm(Room& room, const MapExtent& extent) : BatchNorm(room.shape(extent), room.exchange()) {
      room.add(*this);
    }
  };

  struct Hidden : HiddenLinear {
    Hidden(Room& room, std::int64_t in, std::int64_t out) : HiddenLinear(room.runtime(), {in, out}) {
      room.add(holder());
    }
  };

  struct Linear : cpu::Linear {
    Linear(Room& room, std::int64_t in, std::int64_t out, bool bias, std::int64_t tokens = 1)
        : cpu::Linear(room.runtime(), {in, out, bias, tokens}) {
      room.add(*this);
    }
  };

  struct Head : Linear {
    Head(Room& room, std::int64_t in, std::int64_t out) : Linear(room, in, out, true) {}
  };
};

static_assert(RowLayerSet<Layers>);

}  // namespace muster::nn::cpu
