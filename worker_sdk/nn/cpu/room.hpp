// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/cpu/map.hpp"
#include "worker_sdk/nn/layers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace muster::nn::cpu {

/// Memory of a layer beside what it asked the room for.
struct Workspace {
  std::size_t own = 0;
  /// What oneDNN lends to one primitive after the other: of all on a thread the most counts.
  std::size_t shared = 0;

  void add(const Workspace& other) {
    own += other.own;
    shared = std::max(shared, other.shared);
  }
};

/// A layer that has such memory. It may not move.
class WorkspaceHolder {
 public:
  virtual ~WorkspaceHolder() = default;
  WorkspaceHolder(const WorkspaceHolder&) = delete;
  WorkspaceHolder& operator=(const WorkspaceHolder&) = delete;

  /// As it is now.
  virtual Workspace workspace() const = 0;
  /// As it will be behind such batches.
  virtual Workspace workspace_for(std::span<const BatchSize> batches) const = 0;

 protected:
  WorkspaceHolder() = default;
};

/// The largest batch; with `training`, of those that are trained on.
std::int64_t largest(std::span<const BatchSize> batches, bool training = false);

/// What the layers of a model share on this machine's processors: oneDNN, the format of all maps, and the
/// memory, which grows with the batch.
class Room {
 public:
  /// Maps are in the format that is fastest here, unless one is given.
  explicit Room(const NetworkOptions& options);
  Room(const NetworkOptions& options, const MapFormat& format);
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  const std::shared_ptr<const Runtime>& runtime() const { return runtime_; }

  StatisticsExchange* exchange() const { return options_.sync_batch_norm; }

  const MapFormat& format() const { return format_; }

  Precision precision() const { return options_.precision; }

  bool keeps_weight_copies() const { return options_.keep_weight_copies; }

  MapShape shape(const MapExtent& extent) const { return {extent.channels, extent.side, format_}; }

  void* const& add(std::size_t bytes_per_sample, MemoryKind kind);

  void begin_segment() { segment_ = ++segments_; }

  void end_segments() { segment_ = 0; }

  void add(const WorkspaceHolder& layer) { holders_.push_back(&layer); }

  void begin(std::int64_t batch);

  void set_dropout_key(const DropoutKey&) {}  ///< layers get it with each call

  SampleFormat sample_format(const Input& input) const {
    return {input.channels, Precision::f32, input.kind == InputKind::images ? input.side : 1};
  }

  std::size_t element_bytes() const { return format_.element_bytes(); }

  std::size_t map_bytes(const MapExtent& extent) const { return shape(extent).bytes(1); }

  MemoryUse memory() const;
  MemoryUse memory_for(std::span<const BatchSize> batches) const;

  std::size_t bytes_per_sample(MemoryKind kind) const;
  void copy(void* to, const void* from, std::size_t bytes) const;
  void clear(void* memory, std::size_t bytes) const;

  const void* on_host(const void* data, std::size_t, std::vector<char>&) const { return data; }

 private:
  std::size_t lay_out(std::size_t batch, std::vector<std::size_t>* offsets) const;

  struct Place {
    std::size_t bytes_per_sample = 0;
    MemoryKind kind = nullptr;
    std::size_t segment = 0;  ///< 0: it has a buffer of its own
    Buffer buffer;
    void* data = nullptr;
  };

  const NetworkOptions options_;
  const MapFormat format_;
  const std::shared_ptr<const Runtime> runtime_;
  std::deque<Place> places_;
  Buffer shared_;            ///< by all segments
  std::size_t segment_ = 0;  ///< that is being built
  std::size_t segments_ = 0;
  std::vector<const WorkspaceHolder*> holders_;
};

}  // namespace muster::nn::cpu
