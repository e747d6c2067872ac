// SPDX-License-Identifier: Apache-2.0
// The ranks of a world as a grid whose axes have names, so that a call says which ranks it means.
#pragma once

#include "worker_sdk/comm/process_group.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::parallel {

/// The ranks along this axis have one copy of the model together, each a part.
inline constexpr const char* kShardAxis = "shard";
/// The ranks along this axis have the same part of a copy each.
inline constexpr const char* kReplicaAxis = "replica";

struct MeshAxis {
  std::string name;
  int size = 1;
};

/// This rank's number along each axis. Ranks are numbered through the grid, along the last axis first. Pure.
std::vector<int> places_in(const std::vector<MeshAxis>& axes, int rank);

/// The grid {replicas, shards} of `ranks` ranks of which `sharing` neighbours have a copy of the model
/// together. Throws Error (invalid_argument) where these do not divide the ranks. Pure.
std::vector<MeshAxis> axes_of_shards(int ranks, int sharing);

/// The groups of a grid of ranks. One thread, but for abort(); every rank makes the same calls.
class Mesh {
 public:
  /// `world` has as many ranks as the grid, and outlives this object. A collective call.
  Mesh(std::vector<MeshAxis> axes, ProcessGroup& world);

  /// All ranks. What is about samples is about all of them: their number, the loss, votes, batch norm.
  ProcessGroup& world() const { return world_; }

  int size(std::string_view axis) const { return axes_[find(axis)].size; }

  /// This rank's number along the axis.
  int place(std::string_view axis) const { return places_[find(axis)]; }

  /// The ranks that differ from this one along the axis only, by their numbers there; null where it has one.
  ProcessGroup* along(std::string_view axis) const { return groups_[find(axis)]; }

  /// The bytes that calls along the axes have sent, but for those of world().
  std::uint64_t payload() const;

  /// Makes every call of every rank along the axes fail. Any thread.
  void abort(const std::string& reason) const;

 private:
  std::size_t find(std::string_view axis) const;

  const std::vector<MeshAxis> axes_;
  ProcessGroup& world_;
  const std::vector<int> places_;
  std::vector<std::unique_ptr<ProcessGroup>> own_;
  std::vector<ProcessGroup*> groups_;
};

}  // namespace muster::parallel
