// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/cpu/room.hpp"

#include "worker_sdk/trainer/nn/cpu/convolution.hpp"
#include "worker_sdk/trainer/nn/cpu/machine.hpp"

#include <cstring>

namespace muster::nn::cpu {

Room::Room(const NetworkOptions& options) : Room(options, map_format(options.precision)) {}

Room::Room(const NetworkOptions& options, const MapFormat& format)
    : options_(options), format_(format), runtime_(std::make_shared<Runtime>()) {}

void* const& Room::add(std::size_t bytes_per_image, MemoryKind kind) {
  Place& place = places_.emplace_back();
  place.bytes_per_image = bytes_per_image;
  place.kind = kind;
  return place.data;
}

void Room::begin(std::int64_t batch) {
  if (options_.threads > 0) set_threads(options_.threads);
  for (Place& place : places_) {
    place.buffer.reserve(static_cast<std::size_t>(batch) * place.bytes_per_image);
    place.data = place.buffer.data();
  }
}

MemoryUse Room::memory() const {
  MemoryUse use;
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

void Room::clear(void* memory, std::size_t bytes) const {
  std::memset(memory, 0, bytes);
}

}  // namespace muster::nn::cpu
