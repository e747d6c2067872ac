// SPDX-License-Identifier: Apache-2.0
// What of a model leaves the process, or comes back: its arenas as tensors in memory of the host.
#pragma once

#include "worker_sdk/comm/process_group.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace muster::train {

class Machine;

/// What tensors have of a model in shards: what this rank holds, or of that what it writes into a checkpoint,
/// where several ranks hold the same (Sharding::ranks) a portion of it.
enum class Extent : std::uint8_t { held, written };

/// A named part of a checkpoint: the elements of a float tensor that this process has. Where the model is in
/// shards these may be some or none of them.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of the whole tensor
  float* values = nullptr;          ///< the first of its elements
  std::size_t first = 0;            ///< the number of that one in the tensor
  std::size_t elements = 0;
};

/// The arenas of a machine. On a device they are copied when they are asked for, once after a step. One
/// thread.
class ModelTensors {
 public:
  /// Both outlive this object; `group` is null in a world of one. The first values follow from `seed`: see
  /// nn::initialize(). They count after share().
  ModelTensors(Machine& machine, ProcessGroup* group, std::uint64_t seed);

  /// Tells that a step changes the arenas.
  void begin_step() { fetched_ = false; }

  /// As Learner's calls of these names. `averaged`: there is an average, and it takes the place of the
  /// parameters.
  std::vector<NamedTensor> model(bool averaged, Extent extent);
  std::vector<NamedTensor> state(Extent extent);
  void each_parameter(bool averaged, const std::function<void(const float* values)>& use);
  void share();
  void share_statistics();
  std::uint64_t hash(std::int64_t steps);

  /// Lets `change` change the running statistics of this rank.
  void change_statistics(const std::function<void(std::span<float> values)>& change);

 private:
  /// An arena of the machine, and where this process reads and writes it.
  struct Mirror {
    Mirror(std::string of, float* values, std::size_t count, Machine& machine);

    std::string name;
    float* place;
    std::vector<float> copy;  ///< empty where the machine's memory is the host's
    std::span<float> floats;
  };

  /// What of a learner is brought to memory of the host, or back.
  enum class Piece : std::uint8_t { parameters, statistics, everything };

  void read(Mirror& mirror);
  void write(const Mirror& mirror);
  void fetch(Piece piece);
  void put(Piece piece);
  void broadcast(std::span<float> values);
  std::uint64_t hash_of_shards(std::int64_t steps);
  bool is_whole(const Mirror& arena) const;

  const Mirror& weights(bool averaged) const { return averaged ? arenas_.back() : arenas_.front(); }

  void append(std::vector<NamedTensor>& tensors, const std::string& prefix, const Mirror& arena,
              Extent extent) const;

  Machine& machine_;
  ProcessGroup* const group_;   ///< null in a world of one
  std::vector<Mirror> arenas_;  ///< the parameters, then each state
  Mirror running_;
  std::vector<float*> buffers_;  ///< parts of the running statistics
  bool fetched_ = true;          ///< the mirrors are those of this step
};

}  // namespace muster::train
