// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/description.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace muster::nn {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxText = std::size_t{1} << 20;
constexpr std::size_t kMaxLayers = 4096;
constexpr int kMaxResiduals = 4;  ///< inside each other
constexpr int kMaxNesting = 16;   ///< of JSON: that many residuals, and some
constexpr std::int64_t kMaxNumber = std::int64_t{1} << 31;

/// The words of an enumeration.
template <typename Kind>
struct Word {
  Kind kind;
  std::string_view word;
  std::string_view fields;  ///< between blanks
};

constexpr auto kLayers = std::to_array<Word<LayerKind>>({
    {LayerKind::linear, "linear", " out bias "},
    {LayerKind::convolution, "convolution", " out kernel stride padding bias "},
    {LayerKind::batch_norm, "batch_norm", " "},
    {LayerKind::layer_norm, "layer_norm", " "},
    {LayerKind::relu, "relu", " "},
    {LayerKind::gelu, "gelu", " "},
    {LayerKind::attention, "attention", " heads "},
    {LayerKind::max_pool, "max_pool", " kernel stride padding "},
    {LayerKind::average_pool, "average_pool", " "},
    {LayerKind::flatten, "flatten", " channels_last "},
    {LayerKind::grey, "grey", " "},
    {LayerKind::tokens, "tokens", " "},
    {LayerKind::positions, "positions", " "},
    {LayerKind::token_mean, "token_mean", " "},
    {LayerKind::residual, "residual", " body shortcut "},
    {LayerKind::embedding, "embedding", " vocabulary out "},
    {LayerKind::dropout, "dropout", " share "},
});

constexpr auto kInputs = std::to_array<Word<InputKind>>({{InputKind::images, "images", " channels side "},
                                                         {InputKind::features, "features", " channels "},
                                                         {InputKind::ids, "ids", " channels "}});

constexpr auto kLosses =
    std::to_array<Word<Loss>>({{Loss::cross_entropy, "cross_entropy", ""}, {Loss::mse, "mse", ""}});

template <typename Words, typename Kind>
const auto& row_of(const Words& words, Kind kind) {
  return *std::find_if(words.begin(), words.end(), [&](const auto& row) { return row.kind == kind; });
}

template <typename Words>
std::string all_words(const Words& words) {
  return joined_by(words, [](const auto& row) { return row.word; });
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "the description of a network is refused: " + where + " " + what);
}

bool has_field(std::string_view fields, std::string_view name) {
  return fields.find(" " + std::string(name) + " ") != std::string_view::npos;
}

/// Calls visit(name, field) for the fields that a layer of some kind may have.
template <typename AnyLayer, typename Visit>
void each_field(AnyLayer& layer, const Visit& visit) {
  visit("out", layer.out);
  visit("kernel", layer.kernel);
  visit("stride", layer.stride);
  visit("padding", layer.padding);
  visit("bias", layer.bias);
  visit("channels_last", layer.channels_last);
  visit("heads", layer.heads);
  visit("vocabulary", layer.vocabulary);
  visit("share", layer.share);
  visit("body", layer.body);
  visit("shortcut", layer.shortcut);
}

class Reader {
 public:
  Description description(const Json& json) {
    check_object(json, "it", " name input loss layers ");
    Description result;
    if (const Json* name = find(json, "name")) read(*name, "its name", result.name);
    if (const Json* input = find(json, "input")) result.input = input_from(*input);
    if (const Json* loss = find(json, "loss")) result.loss = word(kLosses, *loss, "its loss");
    const Json* layers = find(json, "layers");
    if (layers == nullptr) refuse("it", "has no layers; write \"layers\": [{\"layer\": \"linear\", ...}]");
    result.layers = list(*layers, "it", "", 0);
    return result;
  }

 private:
  static const Json* find(const Json& json, const char* name) {
    const auto at = json.find(name);
    return at == json.end() ? nullptr : &*at;
  }

  static void check_object(const Json& json, const std::string& where, std::string_view fields) {
    if (!json.is_object()) refuse(where, "is no object; write {...}");
    for (const auto& [name, value] : json.items())
      if (!has_field(fields, name))
        refuse(where, "has no field " + json_text(name) +
                          "; its fields are:" + std::string(fields.substr(0, fields.size() - 1)));
  }

  template <typename Kind, std::size_t kCount>
  static Kind word(const std::array<Word<Kind>, kCount>& words, const Json& json, const std::string& where) {
    for (const auto& row : words)
      if (json.is_string() && json.get_ref<const std::string&>() == row.word) return row.kind;
    refuse(where, "is " + json.dump() + "; choose one of: " + all_words(words));
  }

  static void read(const Json& json, const std::string& where, std::string& value) {
    if (!json.is_string()) refuse(where, "is " + json.dump() + ", not a text");
    value = json.get<std::string>();
  }

  static void read(const Json& json, const std::string& where, bool& value) {
    if (!json.is_boolean()) refuse(where, "is " + json.dump() + ", not true or false");
    value = json.get<bool>();
  }

  static void read(const Json& json, const std::string& where, double& value) {
    if (!json.is_number()) refuse(where, "is " + json.dump() + ", not a number");
    value = json.get<double>();
  }

  static void read(const Json& json, const std::string& where, std::int64_t& value) {
    const double number = json.is_number() ? json.get<double>() : -1;
    if (!json.is_number_integer() || number < 0 || number > static_cast<double>(kMaxNumber))
      refuse(where, "is " + json.dump() + ", not a whole number from 0 to 2^31");
    value = json.get<std::int64_t>();
  }

  static Input input_from(const Json& json) {
    Input input;
    check_object(json, "its input", " kind channels side ");
    if (const Json* kind = find(json, "kind")) input.kind = word(kInputs, *kind, "its input");
    check_object(json, "its input", std::string(" kind") + std::string(row_of(kInputs, input.kind).fields));
    if (const Json* channels = find(json, "channels"))
      read(*channels, "its input's channels", input.channels);
    if (const Json* side = find(json, "side")) read(*side, "its input's side", input.side);
    return input;
  }

  /// `place` of each layer is its way through the lists of the text, such as 3.body.0.
  std::vector<Layer> list(const Json& json, const std::string& where, const std::string& prefix, int depth) {
    if (!json.is_array()) refuse(where, "has layers that are no list; write [{\"layer\": ...}, ...]");
    if (depth > kMaxResiduals)
      refuse(where, "is a residual layer inside " + std::to_string(kMaxResiduals) +
                        " others; no more may be inside each other");
    std::vector<Layer> layers;
    for (const Json& each : json)
      layers.push_back(layer(each, prefix + std::to_string(layers.size()), depth));
    return layers;
  }

  Layer layer(const Json& json, const std::string& place, int depth) {
    if (++count_ > kMaxLayers) refuse("it", "has more than " + std::to_string(kMaxLayers) + " layers");
    std::string where = "layer " + place;
    if (!json.is_object() || !json.contains("layer"))
      refuse(where, "does not say what it is; write {\"layer\": \"linear\", ...}");
    Layer layer;
    if (const Json* name = find(json, "name")) {
      read(*name, where + ": its name", layer.name);
      where += " " + json_text(layer.name);
    }
    layer.kind = word(kLayers, json["layer"], where);
    where += " (" + std::string(name_of(layer.kind)) + ")";
    check_object(json, where, " layer name" + std::string(row_of(kLayers, layer.kind).fields));
    each_field(layer, [&](const char* name, auto& value) {
      const Json* found = find(json, name);
      if (found == nullptr) return;
      if constexpr (std::is_same_v<decltype(value), std::vector<Layer>&>)
        value = list(*found, where, place + "." + name + ".", depth + 1);
      else
        read(*found, where + ": its " + name, value);
    });
    return layer;
  }

  std::size_t count_ = 0;
};

Json json_of(const std::vector<Layer>& layers) {
  static const Layer defaults;
  Json list = Json::array();
  for (const Layer& layer : layers) {
    Json& json = list.emplace_back(Json{{"layer", name_of(layer.kind)}});
    if (!layer.name.empty()) json["name"] = layer.name;
    const std::string_view fields = row_of(kLayers, layer.kind).fields;
    each_field(layer, [&](const char* name, const auto& value) {
      if (!has_field(fields, name)) return;
      bool is_default = false;
      each_field(defaults, [&](std::string_view other, const auto& wanted) {
        if constexpr (std::is_same_v<decltype(wanted), decltype(value)>)
          if (other == name) is_default = value == wanted;
      });
      if (is_default) return;
      if constexpr (std::is_same_v<decltype(value), const std::vector<Layer>&>)
        json[name] = json_of(value);
      else
        json[name] = value;
    });
  }
  return list;
}

}  // namespace

std::string_view name_of(LayerKind kind) {
  return row_of(kLayers, kind).word;
}

Description description_from(std::string_view text) {
  if (text.size() > kMaxText) refuse("it", "is longer than 1 MiB of text");
  const auto watch = [](int depth, Json::parse_event_t, const Json&) {
    if (depth > kMaxNesting) refuse("it", "is nested deeper than residual layers may be");
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, watch);
  } catch (const Json::exception& error) {
    refuse("it", std::string("is not JSON: ") + error.what());
  }
  return Reader().description(json);
}

std::string to_text(const Description& description) {
  Json input = {{"kind", row_of(kInputs, description.input.kind).word},
                {"channels", description.input.channels}};
  if (description.input.kind == InputKind::images) input["side"] = description.input.side;
  const Json json = {{"name", description.name},
                     {"input", input},
                     {"loss", row_of(kLosses, description.loss).word},
                     {"layers", json_of(description.layers)}};
  return json.dump();
}

}  // namespace muster::nn
