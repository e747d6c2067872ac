// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/room.hpp"

#include "worker_sdk/nn/cpu/machine.hpp"
#include "worker_sdk/nn/cpu/pieces.hpp"
#include "worker_sdk/nn/cpu/processors.hpp"

#include <algorithm>
#include <cstring>

namespace muster::nn::cpu {

std::int64_t largest(std::span<const BatchSize> batches, bool training) {
  std::int64_t most = 0;
  for (const BatchSize& batch : batches)
    if (batch.trains || !training) most = std::max(most, batch.samples);
  return most;
}

Room::Room(const NetworkOptions& options) : Room(options, map_format(options.precision)) {}

Room::Room(const NetworkOptions& options, const MapFormat& format)
    : options_(options), format_(format), runtime_(std::make_shared<Runtime>()) {}

void* const& Room::add(std::size_t bytes_per_sample, MemoryKind kind) {
  Place& place = places_.emplace_back();
  place.bytes_per_sample = bytes_per_sample;
  place.kind = kind;
  if (kind == &MemoryUse::activations) place.segment = segment_;
  return place.data;
}

/// Where the places of segments lie in the memory that all segments share, and its size.
std::size_t Room::lay_out(std::size_t batch, std::vector<std::size_t>* offsets) const {
  constexpr std::size_t kLine = 64;
  std::vector<std::size_t> ends(segments_ + 1);
  for (const Place& place : places_) {
    if (offsets != nullptr) offsets->push_back(ends[place.segment]);
    if (place.segment > 0)
      ends[place.segment] += (batch * place.bytes_per_sample + kLine - 1) / kLine * kLine;
  }
  return *std::max_element(ends.begin(), ends.end());
}

void Room::begin(std::int64_t batch) {
  if (options_.threads > 0) set_threads(options_.threads);
  const auto samples = static_cast<std::size_t>(batch);
  std::vector<std::size_t> offsets;
  shared_.reserve(lay_out(samples, &offsets));
  std::size_t number = 0;
  for (Place& place : places_) {
    const std::size_t offset = offsets[number++];
    if (place.segment == 0) place.buffer.reserve(samples * place.bytes_per_sample);
    place.data = place.segment == 0 ? place.buffer.data() : shared_.data<char>() + offset;
  }
}

MemoryUse Room::memory() const {
  MemoryUse use;
  use.activations = shared_.bytes();
  for (const Place& place : places_) use.*place.kind += place.buffer.bytes();
  Workspace workspace;
  for (const WorkspaceHolder* holder : holders_) workspace.add(holder->workspace());
  use.workspace += workspace.own + workspace.shared;
  return use;
}

MemoryUse Room::memory_for(std::span<const BatchSize> batches) const {
  MemoryUse use;
  const auto most = static_cast<std::size_t>(largest(batches));
  use.activations = Buffer::whole_pages(lay_out(most, nullptr));
  for (const Place& place : places_)
    if (place.segment == 0) use.*place.kind += Buffer::whole_pages(most * place.bytes_per_sample);
  Workspace workspace;
  for (const WorkspaceHolder* holder : holders_) workspace.add(holder->workspace_for(batches));
  use.workspace += workspace.own + workspace.shared;
  return use;
}

std::size_t Room::bytes_per_sample(MemoryKind kind) const {
  std::size_t sum = 0;
  for (const Place& place : places_)
    if (place.kind == kind) sum += place.bytes_per_sample;
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
