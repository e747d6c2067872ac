// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/built_in.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"

#include <array>
#include <initializer_list>
#include <utility>

namespace muster::nn {
namespace {

using Layers = std::vector<Layer>;

Layer layer(LayerKind kind, std::string name = "") {
  Layer layer;
  layer.kind = kind;
  layer.name = std::move(name);
  return layer;
}

Layer relu() {
  return layer(LayerKind::relu);
}

Layer linear(std::string name, std::int64_t out) {
  Layer linear = layer(LayerKind::linear, std::move(name));
  linear.out = out;
  return linear;
}

Layer convolution(std::string name, std::int64_t out, std::int64_t kernel, std::int64_t stride, bool bias) {
  Layer convolution = layer(LayerKind::convolution, std::move(name));
  convolution.out = out;
  convolution.kernel = kernel;
  convolution.stride = stride;
  convolution.bias = bias;
  return convolution;
}

Layer max_pool(std::int64_t kernel, std::int64_t padding) {
  Layer pool = layer(LayerKind::max_pool);
  pool.kernel = kernel;
  pool.stride = 2;
  pool.padding = padding;
  return pool;
}

Layer residual(std::string name, Layers body, Layers shortcut = {}) {
  Layer residual = layer(LayerKind::residual, std::move(name));
  residual.body = std::move(body);
  residual.shortcut = std::move(shortcut);
  return residual;
}

void append(Layers& layers, Layers more) {
  for (Layer& one : more) layers.push_back(std::move(one));
}

/// 545,098 parameters for ten classes. The columns of fc1.weight are in the order height, width, channels.
Layers small_cnn(std::int64_t classes) {
  Layer flatten = layer(LayerKind::flatten);
  flatten.channels_last = true;
  return {convolution("conv1", 32, 3, 1, true),
          relu(),
          max_pool(2, 0),
          convolution("conv2", 64, 3, 1, true),
          relu(),
          max_pool(2, 0),
          flatten,
          linear("fc1", 128),
          relu(),
          linear("fc2", classes)};
}

/// One block of a residual network with torchvision's names: convolutions of these kernels, `stride` at the
/// first one that is 3 wide, and the same channels but for the last.
Layer block(const std::string& name, std::initializer_list<std::int64_t> kernels, std::int64_t channels,
            std::int64_t out, std::int64_t stride, bool has_shortcut) {
  Layers body;
  std::int64_t left = stride;
  std::size_t number = 0;
  for (const std::int64_t kernel : kernels) {
    const bool last = ++number == kernels.size();
    const std::int64_t here = kernel == 3 ? std::exchange(left, 1) : 1;
    if (number > 1) body.push_back(relu());
    body.push_back(convolution("conv" + std::to_string(number), last ? out : channels, kernel, here, false));
    body.push_back(layer(LayerKind::batch_norm, "bn" + std::to_string(number)));
  }
  if (!has_shortcut) return residual(name, std::move(body));
  return residual(
      name, std::move(body),
      {convolution("downsample.0", out, 1, stride, false), layer(LayerKind::batch_norm, "downsample.1")});
}

/// He et al., "Deep Residual Learning for Image Recognition", 2015, with the names of torchvision: ResNet-18,
/// or ResNet-50 as torchvision builds it (v1.5: the stride is that of the 3 x 3 convolution).
/// `imagenet_stem`: 7 x 7 at stride 2 and the maximum, as for large images; else 3 x 3, as the paper does
/// for CIFAR.
Layers resnet(bool deep, bool imagenet_stem, std::int64_t classes) {
  Layers layers = {
      imagenet_stem ? convolution("conv1", 64, 7, 2, false) : convolution("conv1", 64, 3, 1, false),
      layer(LayerKind::batch_norm, "bn1"), relu()};
  if (imagenet_stem) layers.push_back(max_pool(3, 1));
  constexpr std::array kTwo = {2, 2, 2, 2};
  constexpr std::array kDeep = {3, 4, 6, 3};
  std::int64_t in = 64;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const std::int64_t channels = std::int64_t{64} << stage;
    const std::int64_t out = deep ? 4 * channels : channels;
    for (int number = 0; number < (deep ? kDeep : kTwo)[stage]; ++number) {
      const std::int64_t stride = stage > 0 && number == 0 ? 2 : 1;
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(number);
      const bool shortcut = stride != 1 || in != out;
      layers.push_back(deep ? block(name, {1, 3, 1}, channels, out, stride, shortcut)
                            : block(name, {3, 3}, channels, out, stride, shortcut));
      layers.push_back(relu());
      in = out;
    }
  }
  append(layers, {layer(LayerKind::average_pool), linear("fc", classes)});
  return layers;
}

/// Linear layers with ReLU behind each, on grey images.
Layers perceptron(std::initializer_list<std::int64_t> widths, std::int64_t classes) {
  Layers layers = {layer(LayerKind::grey)};
  std::size_t number = 0;
  for (const std::int64_t width : widths)
    append(layers, {linear("fc" + std::to_string(++number), width), relu()});
  layers.push_back(linear("head", classes));
  return layers;
}

/// Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020, with patches of 4 x 4 and the mean of the
/// tokens in the place of a class token. The encoder is PyTorch's TransformerEncoder of six
/// TransformerEncoderLayer(192, 4, 768, dropout=0, activation="gelu", norm_first=True), with their names.
Layers vit_tiny(std::int64_t classes) {
  constexpr std::int64_t kWidth = 192;
  Layer patches = convolution("conv_proj", kWidth, 4, 4, true);
  patches.padding = 0;
  Layers layers = {patches, layer(LayerKind::tokens), layer(LayerKind::positions, "positions")};
  Layer attention = layer(LayerKind::attention, "self_attn");
  attention.heads = 4;
  for (int number = 0; number < 6; ++number) {
    const std::string name = "layers." + std::to_string(number);
    append(layers, {residual(name, {layer(LayerKind::layer_norm, "norm1"), attention}),
                    residual(name, {layer(LayerKind::layer_norm, "norm2"), linear("linear1", 4 * kWidth),
                                    layer(LayerKind::gelu), linear("linear2", kWidth)})});
  }
  append(layers,
         {layer(LayerKind::layer_norm, "norm"), layer(LayerKind::token_mean), linear("head", classes)});
  return layers;
}

struct Model {
  std::string_view name;
  Layers (*layers)(std::int64_t classes);
};

constexpr std::array kModels = {
    Model{"small-cnn", small_cnn},
    Model{"resnet18", [](std::int64_t classes) { return resnet(false, false, classes); }},
    Model{"resnet18-imagenet-stem", [](std::int64_t classes) { return resnet(false, true, classes); }},
    Model{"resnet50", [](std::int64_t classes) { return resnet(true, false, classes); }},
    Model{"mlp",
          [](std::int64_t classes) {
            return perceptron({4096, 1024}, classes);
          }},
    Model{"mlp-8",
          [](std::int64_t classes) {
            return perceptron({1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024}, classes);
          }},
    Model{"vit-tiny", vit_tiny},
};

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Model& model : kModels) names.emplace_back(model.name);
  return names;
}

Description built_in(std::string_view model, std::int64_t classes) {
  if (classes < 2)
    throw Error(ErrorCode::invalid_argument,
                "a model cannot tell " + std::to_string(classes) + " classes apart; give at least 2");
  for (const Model& known : kModels)
    if (known.name == model) return {std::string(model), {}, known.layers(classes), Loss::cross_entropy};
  throw Error(ErrorCode::invalid_argument,
              "there is no model \"" + std::string(model) + "\"; choose one of: " + joined(model_names()));
}

}  // namespace muster::nn
