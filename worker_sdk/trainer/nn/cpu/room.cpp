// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/cpu/room.hpp"

#include "worker_sdk/trainer/nn/cpu/convolution.hpp"
#include "worker_sdk/trainer/nn/cpu/machine.hpp"
#include "worker_sdk/trainer/nn/cpu/pieces.hpp"

#include <algorithm>
#include <cstring>

namespace muster::nn::cpu {

Room::Room(const NetworkOptions& options) : Room(options, map_format(options.precision)) {}

Room::Room(const NetworkOptions& options, const MapFormat& format)
    : options_(options), format_(format), runtime_(std::make_shared<Runtime>()) {}

void* const& Room::add(std::size_t bytes_per_image, MemoryKind kind) {
  Place& place = places_.emplace_back();
  place.bytes_per_image = bytes_per_image;
  place.kind = kind;
  if (kind == &MemoryUse::activations) place.segment = segment_;
  return place.data;
}

void Room::begin(std::int64_t batch) {
  if (options_.threads > 0) set_threads(options_.threads);
  constexpr std::size_t kLine = 64;
  const auto bytes = [batch](const Place& place) {
    return static_cast<std::size_t>(batch) * place.bytes_per_image;
  };
  // Where the places of a segment lie in the memory that all segments share.
  std::vector<std::size_t> ends(segments_ + 1);
  std::vector<std::size_t> offsets;
  for (const Place& place : places_) {
    offsets.push_back(ends[place.segment]);
    if (place.segment > 0) ends[place.segment] += (bytes(place) + kLine - 1) / kLine * kLine;
  }
  shared_.reserve(*std::max_element(ends.begin(), ends.end()));
  std::size_t number = 0;
  for (Place& place : places_) {
    const std::size_t offset = offsets[number++];
    if (place.segment == 0) place.buffer.reserve(bytes(place));
    place.data = place.segment == 0 ? place.buffer.data() : shared_.data<char>() + offset;
  }
}

MemoryUse Room::memory() const {
  MemoryUse use;
  use.activations = shared_.bytes();
  for (const Place& place : places_) use.*place.kind += place.buffer.bytes();
  for (const Convolution* layer : convolutions_) use.workspace += layer->workspace_bytes();
  return use;
}

std::size_t Room::bytes_per_image(MemoryKind kind) const {
  std::size_t sum = 0;
  for (const Place& place : places_)
    if (place.kind == kind) sum += place.bytes_per_image;
  return sum;
}

void Room::copy(void* to, const void* from, std::size_t bytes) const {
  constexpr std::size_t kWords = 8;
  each_piece((bytes + kWords - 1) / kWords, [&](std::size_t first, std::size_t length) {
    const std::size_t at = first * kWords;
    std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at,
                std::min(length * kWords, bytes - at));
  });
}

void Room::clear(void* memory, std::size_t bytes) const {
  std::memset(memory, 0, bytes);
}

}  // namespace muster::nn::cpu
