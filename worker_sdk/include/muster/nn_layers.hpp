// SPDX-License-Identifier: Apache-2.0
// Networks as lists of layers, which become the text that muster_nn_learner_create() reads. docs/nn.md says
// which layers fit behind which. Part of muster/nn.hpp.
#pragma once

#include "muster/cxx20.hpp"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {
inline namespace v0 {
namespace detail {

/// The parts joined, one after the other.
inline std::string text_of(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  return text;
}

/// The text as a JSON string.
inline std::string quoted(std::string_view text) {
  std::string result(1, '"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      result += code;
    } else {
      result += c;
    }
  }
  result += '"';
  return result;
}

}  // namespace detail

namespace nn {

/// One layer; the functions below make them.
class Layer {
 public:
  explicit Layer(std::string_view kind) : text_(detail::text_of({"{\"layer\":", detail::quoted(kind)})) {}

  /// Gives the layer's tensors a name, which stands ahead of ".weight". Default: its place in the list, as in
  /// PyTorch's Sequential; inside a residual layer behind the name of that layer.
  Layer named(std::string_view name) const { return with("name", detail::quoted(name)); }

  /// Adds a field that the functions below do not set: a truth value, a number, or a text that is JSON.
  template <class Value>
  Layer with(std::string_view field, const Value& value) const {
    std::string json;
    if constexpr (std::is_same_v<Value, bool>) {
      json = value ? "true" : "false";
    } else if constexpr (std::is_arithmetic_v<Value>) {
      char digits[32];
      json.assign(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    } else {
      json = value;
    }
    Layer result = *this;
    result.text_ += detail::text_of({",", detail::quoted(field), ":", json});
    return result;
  }

  std::string text() const { return detail::text_of({text_, "}"}); }

 private:
  std::string text_;
};

/// Layers one after the other.
class Sequential {
 public:
  Sequential() = default;

  Sequential(std::initializer_list<Layer> layers) : layers_(layers) {}

  explicit Sequential(std::vector<Layer> layers) : layers_(std::move(layers)) {}

  Sequential& add(Layer layer) {
    layers_.push_back(std::move(layer));
    return *this;
  }

  bool empty() const { return layers_.empty(); }

  /// The layers as a JSON list.
  std::string text() const {
    std::string text;
    for (const Layer& layer : layers_) text += detail::text_of({text.empty() ? "" : ",", layer.text()});
    return detail::text_of({"[", text, "]"});
  }

 private:
  std::vector<Layer> layers_;
};

/// A linear layer over each row: `out` values.
inline Layer linear(std::int64_t out, bool bias = true) {
  return Layer("linear").with("out", out).with("bias", bias);
}

/// Options of a convolution. padding below 0: kernel / 2.
struct Window {
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = -1;
  bool bias = true;
};

/// A convolution over square maps: `out` channels. On processors a multiple of 16, on a GPU of 8.
inline Layer convolution(std::int64_t out, const Window& window = {}) {
  const Layer layer = Layer("convolution").with("out", out).with("kernel", window.kernel);
  const Layer strided = layer.with("stride", window.stride).with("bias", window.bias);
  return window.padding < 0 ? strided : strided.with("padding", window.padding);
}

/// A batch norm behind a convolution without a bias; ReLU follows, unless a residual layer ends with it.
inline Layer batch_norm() {
  return Layer("batch_norm");
}

/// A layer norm over the width of each row.
inline Layer layer_norm() {
  return Layer("layer_norm");
}

inline Layer relu() {
  return Layer("relu");
}

/// The exact GELU, by erf.
inline Layer gelu() {
  return Layer("gelu");
}

/// Multi-head self-attention over the tokens of a sample, with its projections, as in PyTorch's
/// MultiheadAttention.
inline Layer attention(std::int64_t heads) {
  return Layer("attention").with("heads", heads);
}

/// The maximum over windows: kernel 2, stride 2, padding 0 behind a convolution with a bias and ReLU, or
/// kernel 3, stride 2, padding 1.
inline Layer max_pool(std::int64_t kernel = 2, std::int64_t stride = 2, std::int64_t padding = 0) {
  return Layer("max_pool").with("kernel", kernel).with("stride", stride).with("padding", padding);
}

/// The mean of each channel: a map becomes one row.
inline Layer average_pool() {
  return Layer("average_pool");
}

/// Turns a map into one row: channels first, as PyTorch does, or height, width, channels.
inline Layer flatten(bool channels_last = false) {
  return Layer("flatten").with("channels_last", channels_last);
}

/// Turns images into one row: the mean of the colours of each pixel.
inline Layer grey() {
  return Layer("grey");
}

/// Turns a map into a row for each pixel.
inline Layer tokens() {
  return Layer("tokens");
}

/// Adds trained values to each token.
inline Layer positions() {
  return Layer("positions");
}

/// The mean of the tokens: one row.
inline Layer token_mean() {
  return Layer("token_mean");
}

/// Turns numbers of tokens, below `vocabulary`, into rows of `out` trained values.
inline Layer embedding(std::int64_t vocabulary, std::int64_t out) {
  return Layer("embedding").with("vocabulary", vocabulary).with("out", out);
}

/// Makes this share of the elements 0 in training, and the other elements larger.
inline Layer dropout(double share = 0.5) {
  return Layer("dropout").with("share", share);
}

/// Computes body(x) + x, or body(x) + shortcut(x).
inline Layer residual(const Sequential& body, const Sequential& shortcut = {}) {
  const Layer layer = Layer("residual").with("body", body.text());
  return shortcut.empty() ? layer : layer.with("shortcut", shortcut.text());
}

/// The form of a sample: see images(), features() and ids().
struct Input {
  std::string text;
};

/// A sample of `channels` values for each of side x side pixels.
inline Input images(std::int64_t channels, std::int64_t side) {
  return {detail::text_of({R"({"kind":"images","channels":)", std::to_string(channels), R"(,"side":)",
                           std::to_string(side), "}"})};
}

/// A sample of one row of `count` floats.
inline Input features(std::int64_t count) {
  return {detail::text_of({R"({"kind":"features","channels":)", std::to_string(count), "}"})};
}

/// A sample of `count` numbers of tokens.
inline Input ids(std::int64_t count) {
  return {detail::text_of({R"({"kind":"ids","channels":)", std::to_string(count), "}"})};
}

enum class Loss : std::int32_t { cross_entropy, mse };

/// A network: the last layer is linear, over one row for each sample, and gives its results.
class Network {
 public:
  Network(const Input& input, const Sequential& layers, Loss loss = Loss::cross_entropy,
          std::string_view name = "network")
      : text_(detail::text_of({R"({"name":)", detail::quoted(name), R"(,"input":)", input.text,
                               loss == Loss::mse ? R"(,"loss":"mse")" : R"(,"loss":"cross_entropy")",
                               R"(,"layers":)", layers.text(), "}"})) {}

  /// Makes a network from a JSON text, as text() gives it.
  static Network from_text(std::string json) { return Network(std::move(json)); }

  const std::string& text() const { return text_; }

 private:
  explicit Network(std::string json) : text_(std::move(json)) {}

  std::string text_;
};

}  // namespace nn
}  // namespace v0
}  // namespace muster
