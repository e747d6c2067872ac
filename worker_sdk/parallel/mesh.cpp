// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/mesh.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/invariant.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::parallel {

std::vector<int> places_in(const std::vector<MeshAxis>& axes, int rank) {
  std::vector<int> places(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    places[i] = rank % axes[i].size;
    rank /= axes[i].size;
  }
  return places;
}

std::vector<MeshAxis> axes_of_shards(int ranks, int sharing) {
  if (sharing < 1 || ranks % sharing != 0)
    throw Error(ErrorCode::invalid_argument, "copies of the model that " + std::to_string(sharing) +
                                                 " ranks have together do not go into " +
                                                 std::to_string(ranks) +
                                                 " ranks; give a number that divides these");
  return {{kReplicaAxis, ranks / sharing}, {kShardAxis, sharing}};
}

Mesh::Mesh(std::vector<MeshAxis> axes, ProcessGroup& world)
    : axes_(std::move(axes)), world_(world), places_(places_in(axes_, world.rank())) {
  int ranks = 1;
  for (const MeshAxis& axis : axes_) ranks *= axis.size;
  MUSTER_ASSERT(ranks == world.size(), "the sizes of a mesh's axes multiply to the ranks of its world");
  int stride = world.size();
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    stride /= axes_[i].size;
    if (axes_[i].size == 1 || axes_[i].size == world.size()) {
      groups_.push_back(axes_[i].size == 1 ? nullptr : &world);
      continue;
    }
    // The first of those ranks: all of them give its number, and nobody else does.
    own_.push_back(world.split(world.rank() - places_[i] * stride, world.rank()));
    groups_.push_back(own_.back().get());
  }
}

std::size_t Mesh::find(std::string_view axis) const {
  const auto found =
      std::find_if(axes_.begin(), axes_.end(), [axis](const MeshAxis& one) { return one.name == axis; });
  MUSTER_ASSERT(found != axes_.end(), "a mesh is asked for axes that it has");
  return static_cast<std::size_t>(std::distance(axes_.begin(), found));
}

std::uint64_t Mesh::payload() const {
  std::uint64_t bytes = 0;
  for (const auto& group : own_) bytes += group->traffic().payload;
  return bytes;
}

void Mesh::abort(const std::string& reason) const {
  for (const auto& group : own_) group->abort(reason);
}

}  // namespace muster::parallel
