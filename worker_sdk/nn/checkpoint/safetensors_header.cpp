// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/safetensors_header.hpp"

#include "muster/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace muster::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxExtents = 64;
constexpr std::string_view kMetadata = "__metadata__";

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

/// A name in a message: long ones are cut.
std::string shown(const std::string& name) {
  constexpr std::size_t kMost = 200;
  return "\"" + (name.size() > kMost ? name.substr(0, kMost) + "..." : name) + "\"";
}

/// Follows the header's only form, event by event, so that nothing else is ever built in memory.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  SafetensorsHeader header;

  bool key(string_t& name) override {
    if (place_ == Place::top) {
      if (!names_.insert(name).second) refuse("the name " + shown(name) + " stands twice in the header");
      name_ = name;
    } else if (place_ == Place::metadata) {
      if (header.metadata.contains(name)) refuse("the metadata has " + shown(name) + " twice");
      name_ = name;
    } else {
      member_ = name == "dtype"          ? Member::dtype
                : name == "shape"        ? Member::shape
                : name == "data_offsets" ? Member::offsets
                                         : Member::none;
      if (member_ == Member::none)
        refuse("tensor " + shown(name_) + " has " + shown(name) + ", which the format does not know");
      if (seen_[index(member_)]) refuse("tensor " + shown(name_) + " has " + shown(name) + " twice");
      seen_[index(member_)] = true;
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside && !complete_) {
      place_ = Place::top;
    } else if (place_ == Place::top && name_ == kMetadata) {
      place_ = Place::metadata;
    } else if (place_ == Place::top) {
      place_ = Place::tensor;
      tensor_ = {};
      offsets_.clear();
      for (bool& seen : seen_) seen = false;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) add_tensor();
    complete_ = place_ == Place::top;
    place_ = complete_ ? Place::outside : Place::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || in_array_ || member_ == Member::dtype) unexpected("an array");
    in_array_ = true;
    return true;
  }

  bool end_array() override {
    in_array_ = false;
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::metadata) {
      header.metadata.emplace(name_, text);
      return true;
    }
    if (place_ != Place::tensor || in_array_ || member_ != Member::dtype) unexpected("a string");
    const auto type = type_named(text);
    if (!type) refuse("tensor " + shown(name_) + " has the unknown type " + shown(text));
    tensor_.type = *type;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) unexpected("a number");
    if (member_ == Member::offsets) {
      if (offsets_.size() == 2) refuse("tensor " + shown(name_) + " has more than two data_offsets");
      offsets_.push_back(value);
    } else {
      if (tensor_.shape.size() == kMaxExtents || value > (std::uint64_t{1} << 60))
        refuse("the shape of tensor " + shown(name_) + " cannot be held");
      tensor_.shape.push_back(static_cast<std::int64_t>(value));
    }
    return true;
  }

  bool null() override { unexpected("null"); }

  bool boolean(bool) override { unexpected("a truth value"); }

  bool number_integer(number_integer_t) override { unexpected("a negative number"); }

  bool number_float(number_float_t, const string_t&) override { unexpected("a fraction"); }

  bool binary(binary_t&) override { unexpected("bytes"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    refuse("the header is no JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place { outside, top, tensor, metadata };
  enum class Member { dtype, shape, offsets, none };

  static std::size_t index(Member member) { return static_cast<std::size_t>(member); }

  [[noreturn]] void unexpected(const char* what) const {
    refuse(place_ == Place::outside
               ? std::string("the header is ") + what + ", not an object"
               : "the header has " + std::string(what) + " in " + shown(name_) + ", where none belongs");
  }

  void add_tensor() {
    tensor_.name = name_;
    if (!seen_[0] || !seen_[1] || offsets_.size() != 2)
      refuse("tensor " + shown(name_) + " lacks its dtype, its shape or its two data_offsets");
    if (offsets_[1] < offsets_[0]) refuse("tensor " + shown(name_) + " ends before it begins");
    tensor_.begin = offsets_[0];
    tensor_.bytes = offsets_[1] - offsets_[0];
    const auto elements = elements_of(tensor_.shape);
    if (!elements || *elements * size_of(tensor_.type) != tensor_.bytes)
      refuse("tensor " + shown(name_) + " of shape " + text_of(tensor_.shape) + " and type " +
             std::string(name_of(tensor_.type)) + " does not have " + std::to_string(tensor_.bytes) +
             " bytes, which its data_offsets give");
    header.tensors.push_back(std::move(tensor_));
  }

  Place place_ = Place::outside;
  bool complete_ = false;
  bool in_array_ = false;
  Member member_ = Member::none;
  bool seen_[3] = {};
  std::string name_;
  std::set<std::string> names_;
  StoredTensor tensor_;
  std::vector<std::uint64_t> offsets_;
};

/// The bytes of the file are used once each, without gaps: nothing can hide in it.
void check_places(std::vector<StoredTensor>& tensors, std::uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
  });
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin < end) refuse("tensor " + shown(tensor.name) + " overlaps another");
    if (tensor.begin > end)
      refuse("nobody owns the bytes " + std::to_string(end) + " to " + std::to_string(tensor.begin) +
             ", before tensor " + shown(tensor.name));
    if (tensor.bytes > data_bytes - end)
      refuse("tensor " + shown(tensor.name) + " ends at byte " + std::to_string(end + tensor.bytes) +
             ", the data have " + std::to_string(data_bytes) + "; the file is cut");
    end += tensor.bytes;
  }
  if (end != data_bytes)
    refuse("the tensors end at byte " + std::to_string(end) + ", the data have " +
           std::to_string(data_bytes));
}

}  // namespace

std::uint64_t header_length(std::string_view first_bytes, std::uint64_t file_bytes) {
  if (file_bytes < kLengthBytes || first_bytes.size() < kLengthBytes)
    refuse("a file of " + std::to_string(file_bytes) + " bytes is no safetensors file");
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(first_bytes[i]);
  if (length > kMaxHeaderBytes || length > file_bytes - kLengthBytes)
    refuse("the header would have " + std::to_string(length) + " bytes, the file has " +
           std::to_string(file_bytes) + "; it is cut, or no safetensors file");
  return length;
}

SafetensorsHeader parse_header(std::string_view json, std::uint64_t data_bytes) {
  if (!json.starts_with('{')) refuse("the header does not begin with '{'");
  HeaderReader reader;
  Json::sax_parse(json.begin(), json.end(), &reader);
  check_places(reader.header.tensors, data_bytes);
  return std::move(reader.header);
}

FileLayout lay_out(std::span<const TensorView> tensors, const std::map<std::string, std::string>& metadata) {
  FileLayout layout;
  layout.order.resize(tensors.size());
  std::iota(layout.order.begin(), layout.order.end(), std::size_t{0});
  std::stable_sort(layout.order.begin(), layout.order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(tensors[a].type) > size_of(tensors[b].type);
  });
  std::vector<StoredTensor> places;
  std::uint64_t end = 0;
  for (const std::size_t i : layout.order) {
    const TensorView& tensor = tensors[i];
    const auto elements = elements_of(tensor.shape);
    if (!elements) refuse("tensor " + tensor.name + " cannot have the shape " + text_of(tensor.shape));
    layout.bytes.push_back(*elements * size_of(tensor.type));
    places.push_back({tensor.name, tensor.type, tensor.shape, end, layout.bytes.back()});
    end += layout.bytes.back();
  }
  layout.header = format_header(places, metadata);
  return layout;
}

std::string format_header(std::span<const StoredTensor> tensors,
                          const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::set<std::string> names{std::string(kMetadata)};
  std::string text;
  try {
    if (!metadata.empty()) header[kMetadata] = metadata;
    for (const StoredTensor& tensor : tensors) {
      if (!names.insert(tensor.name).second) refuse("two tensors are called " + shown(tensor.name));
      header.push_back({tensor.name,
                        {{"dtype", name_of(tensor.type)},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin, tensor.begin + tensor.bytes}}}});
    }
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    refuse("a name or the metadata are no UTF-8");
  }
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::string length;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length += static_cast<char>(text.size() >> (8 * i) & 0xFFU);
  return length + text;
}

}  // namespace muster::checkpoint
