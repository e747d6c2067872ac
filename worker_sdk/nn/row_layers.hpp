// SPDX-License-Identifier: Apache-2.0
// The layers of a set (layers.hpp) whose values are rows: one row of `width` values for each sample, or for
// each of its `tokens`.
#pragma once

#include "worker_sdk/nn/draw_bits.hpp"
#include "worker_sdk/nn/layers.hpp"

#include <cstdint>

namespace muster::nn {

/// Rows are of L::Feature, one behind the other without gaps. With 0 rows or samples layers do nothing. What
/// forward() was given, backward() gets again, unless it is not among its arguments. `dx` may be where the
/// comments say, and nowhere else in what the call reads.
template <class L>
concept RowLayerSet = LayerSet<L> &&
    requires(typename L::Room& room, std::int64_t count, std::int64_t rows, std::int64_t batch,
             bool with_bias, double share, const ParameterSlot& slot, const typename L::Feature* x,
             typename L::Feature* y, const typename L::Element* map, typename L::Element* new_map,
             const std::int32_t* ids, const MapExtent& extent, const DropoutKey& key) {
  /// y = x * weight^T + bias, weight out x in.
  requires requires(typename L::Linear & layer) {
    (typename L::Linear(room, count, count, with_bias, count));  // in, out, rows of a sample
    layer.bind(slot, slot);                                      // without a bias the second is not read
    layer.weights_changed();
    layer.forward(x, rows, y);
    layer.backward(x, x, rows, y);  // x, dy, rows, dx: null where not wanted, or where x is
  };

  /// max(0, x); what is not a number stays so.
  requires requires(typename L::Relu & layer) {
    (typename L::Relu(room, count, count));  // tokens, width
    layer.forward(x, rows, y);               // y may be x
    layer.backward(x, x, rows, y);           // y, dy, rows, dx: may be either
  };

  /// x * P(X <= x) of a normal X, exact: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
  requires requires(typename L::Gelu & layer) {
    (typename L::Gelu(room, count, count));
    layer.forward(x, rows, y);
    layer.backward(x, x, rows, y);  // x, dy, rows, dx: may be either
  };

  /// Over the width of a row, epsilon 1e-5: Ba, Kiros and Hinton, "Layer Normalization", 2016.
  requires requires(typename L::LayerNorm & layer) {
    (typename L::LayerNorm(room, count, count));
    layer.bind(slot, slot);  // scale, shift
    layer.forward(x, rows, y);
    layer.backward(x, x, rows, y);  // x, dy, rows, dx: may be either
  };

  /// softmax(q k^T / sqrt(width / heads)) v over the tokens of a sample, for each head: Vaswani et al.,
  /// "Attention Is All You Need", 2017. The rows of x are [q | k | v], 3 * width wide, each with its heads
  /// one after the other.
  requires requires(typename L::Attention & layer) {
    (typename L::Attention(room, count, count, count));  // tokens, width, heads
    layer.forward(x, batch, y);
    layer.backward(x, x, batch, y);  // x, dy, batch, dx: may be x
  };

  /// Adds the same tokens x width values to each sample.
  requires requires(typename L::Positions & layer) {
    (typename L::Positions(room, count, count));
    layer.bind(slot);
    layer.forward(x, batch, y);  // y may be x
    layer.backward(x, batch);    // dy, which is the gradient of x, too
  };

  /// Row number ids[i] of the weight, vocabulary x width.
  requires requires(typename L::Embedding & layer) {
    (typename L::Embedding(room, count, count, count));  // vocabulary, tokens, width
    layer.bind(slot);
    layer.forward(ids, rows, y);
    layer.backward(ids, x, rows);  // ids, dy
  };

  /// Zero for a share of the elements, the others scaled by 1 / (1 - share): Srivastava et al., "Dropout",
  /// 2014.
  requires requires(typename L::Dropout & layer) {
    (typename L::Dropout(room, count, count, share));  // tokens, width
    layer.forward(x, rows, y, key);                    // y may be x
    layer.backward(x, rows, y, key);                   // dy, rows, dx: may be dy
  };

  /// The mean of the rows of a sample.
  requires requires(typename L::TokenMean & layer) {
    (typename L::TokenMean(room, count, count));
    layer.forward(x, batch, y);
    layer.backward(x, batch, y);  // dy, batch, dx
  };

  requires requires(typename L::Sum & layer) {
    (typename L::Sum(room, count, count));
    layer.run(x, x, rows, y);  // y = a + b, where y may be either
  };

  /// A map as one row of a sample, in the order channels, height, width.
  requires requires(typename L::Flatten & layer) {
    (typename L::Flatten(room, extent));
    layer.forward(map, batch, y);
    layer.backward(x, batch, new_map);
  };

  /// A map as rows of its channels, one for each pixel, in the order height, width.
  requires requires(typename L::Tokens & layer) {
    (typename L::Tokens(room, extent));
    layer.forward(map, batch, y);
    layer.backward(x, batch, new_map);
  };

  /// The mean of the channels of each pixel of images, as they come in: one row of a sample.
  requires requires(typename L::Grey & layer) {
    (typename L::Grey(room, extent));
    layer.forward(map, batch, y);
  };

  /// Adds a number for each channel to a map.
  requires requires(typename L::MapBias & layer) {
    (typename L::MapBias(room, extent));
    layer.bind(slot);
    layer.forward(map, batch, new_map);  // in place
    layer.backward(map, batch);          // dy, which is the gradient of x, too
  };
};

}  // namespace muster::nn
