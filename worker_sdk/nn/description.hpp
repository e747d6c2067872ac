// SPDX-License-Identifier: Apache-2.0
// A network as a list of layers: plain data, as text or as built here. What follows from it (shapes, names
// of tensors, what is computed together) is in plan.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::nn {

enum class LayerKind : std::uint8_t {
  linear,       ///< out, bias: of each row
  convolution,  ///< out, kernel, stride, padding, bias: of square maps
  batch_norm,   ///< epsilon 1e-5, momentum 0.1, as PyTorch's
  layer_norm,   ///< over the width of a row, epsilon 1e-5
  relu,
  gelu,          ///< exact, by erf
  attention,     ///< heads: multi-head self-attention with its projections, as PyTorch's MultiheadAttention
  max_pool,      ///< kernel, stride, padding
  average_pool,  ///< over the whole map: one row
  flatten,       ///< a map to one row, channels first or, with channels_last, height, width, channels
  grey,          ///< images to one row: the mean of the colours of each pixel
  tokens,        ///< a map to a row for each pixel
  positions,     ///< adds trained values to each token
  token_mean,    ///< the mean of the tokens: one row
  residual,      ///< body(x) + shortcut(x), or + x where there is no shortcut
  embedding,     ///< vocabulary, out: numbers of tokens to rows
  dropout,       ///< share, in training
};

/// The word for a kind in text and errors, for example "batch_norm".
std::string_view name_of(LayerKind kind);

/// One layer of a list. Fields that its kind does not name are not looked at.
struct Layer {
  LayerKind kind = LayerKind::linear;
  /// What its tensors are called, ahead of ".weight"; empty: its place in the list, as PyTorch's Sequential
  /// counts. Inside a residual layer it stands behind the name of that one, as in "layer1.0.conv1".
  std::string name;
  std::int64_t out = 0;  ///< outputs, channels or width
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = -1;  ///< -1: kernel / 2
  bool bias = true;
  bool channels_last = false;
  std::int64_t heads = 1;
  std::int64_t vocabulary = 0;
  double share = 0.5;  ///< of the elements that dropout makes 0
  std::vector<Layer> body;
  std::vector<Layer> shortcut;

  bool operator==(const Layer&) const = default;
};

/// What a sample is.
enum class InputKind : std::uint8_t {
  images,    ///< `channels` values for each of side x side pixels
  features,  ///< one row of `channels` floats
  ids,       ///< `channels` numbers of tokens
};

struct Input {
  InputKind kind = InputKind::images;
  std::int64_t channels = 3;
  std::int64_t side = 32;

  bool operator==(const Input&) const = default;
};

/// What a network is trained to make small.
enum class Loss : std::uint8_t { cross_entropy, mse };

struct Description {
  std::string name;
  Input input;
  /// The last one is linear, over one row for each sample: its results are the logits.
  std::vector<Layer> layers;
  Loss loss = Loss::cross_entropy;

  bool operator==(const Description&) const = default;
};

/// Reads what to_text() writes, and what people write like it:
///
///     {"name": "two-layers", "input": {"kind": "images", "channels": 3, "side": 32}, "loss":
///     "cross_entropy",
///      "layers": [{"layer": "grey"}, {"layer": "linear", "out": 128}, {"layer": "relu"},
///                 {"layer": "linear", "name": "head", "out": 10}]}
///
/// Fields are those of the structs, and may be left out where they have a default. At most 1 MiB of text,
/// 4096 layers, residual layers 4 deep, numbers up to 2^31. Throws Error (invalid_argument), naming the
/// layer and the field.
Description description_from(std::string_view text);

/// JSON text, in one line. Fields of their default values are left out.
std::string to_text(const Description& description);

}  // namespace muster::nn
