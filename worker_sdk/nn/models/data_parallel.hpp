// SPDX-License-Identifier: Apache-2.0
// Several replicas of a network in one process, each with a thread, which share every batch: PyTorch's
// DataParallel. For comparison with a rank for each share: what replica 0 holds and moves is its bottleneck,
// and is counted.
#pragma once

#include "worker_sdk/nn/network.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::nn {

class Replica;

/// What moved between replica 0 and the others in training since the network was made. With P bytes of
/// parameters and n replicas `parameters_out` and `gradients_in` are P(n-1) each in a step of one batch,
/// whatever its size, but for replicas without samples, which have no gradients.
struct ReplicaTraffic {
  std::int64_t steps = 0;          ///< copies of the parameters
  std::size_t parameters_out = 0;  ///< bytes out of replica 0
  std::size_t gradients_in = 0;    ///< bytes into it
  std::size_t samples_out = 0;     ///< of samples and of gradients of their logits
  std::size_t logits_in = 0;
  double copying = 0;  ///< seconds: parameters, running statistics and samples to the replicas
  double adding = 0;   ///< seconds: gradients of the replicas into those of replica 0
};

/// One network that the learner need not know to be several. forward() gives replica r of n the samples r, r
/// + n, r + 2n, ... of the batch, as n ranks would have them, and gathers the logits; those without samples
/// rest. backward() adds the gradients into the caller's, in the order of the replicas, and then tells each
/// to be ready: so without batches that wait for others the bits are those of n ranks whose sums are in rank
/// order.
///
/// Parameters are copied from replica 0, whose places are the caller's, in the first forward() after
/// parameters_changed(). Batch norm takes statistics of each replica's samples; the running ones are those of
/// replica 0, which the others get before an evaluation. Dropout draws as for the whole batch.
///
/// A replica is used, and destroyed, on its own thread. What it throws comes out of the call as an Error that
/// names it; then the other replicas have ended that call, too.
class DataParallel final : public Network {
 public:
  /// At least one, all alike, and none exchanges statistics. Each has its share of the calling thread's
  /// threads(), at least one. Throws Error (invalid_argument) where there is none.
  explicit DataParallel(std::vector<std::unique_ptr<Network>> replicas);
  ~DataParallel() override;

  const ModelSpec& spec() const override;
  SampleFormat sample_format() const override;
  void bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) override;
  void parameters_changed() override;
  const std::vector<ParameterUnit>& units() const override;
  /// Throws Error (unsupported) for a user: all replicas use their parameters at once.
  void set_unit_user(UnitUser* user) override;
  void set_draws(const DropoutKey& draws) override;
  const float* forward(const void* images, std::int64_t batch, Mode mode) override;
  void backward(const float* logits_gradient, const Ready& ready) override;
  std::string first_not_finite() override;

  /// Replica 0's, and what there is of the whole batch beside it: logits and samples on their way.
  MemoryUse memory() const override;
  MemoryUse memory_for(std::span<const BatchSize> batches) const override;
  /// Those of one replica.
  std::vector<StepMemory> memory_by_step() const override;
  double flops_per_sample() const override;

  std::size_t replicas() const { return replicas_.size(); }

  /// Bytes of all replicas but the first: parameters, gradients, and what their networks hold.
  std::size_t other_bytes() const;

  const ReplicaTraffic& traffic() const { return traffic_; }

 private:
  template <typename Work>
  void each_replica(const Work& work);
  void copy_parameters();
  void copy_buffers();
  void add_gradients(std::size_t parameter);
  std::int64_t samples_of(std::size_t replica) const;

  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<float*> buffers_;
  std::vector<float> logits_;
  std::vector<std::size_t> order_;  ///< in which replica 0 has told its gradients to be ready
  std::int64_t batch_ = 0;
  bool changed_ = true;
  DropoutKey draws_;
  ReplicaTraffic traffic_;
};

/// Samples of a batch that replica `replica` of `replicas` gets.
std::int64_t share_of(std::int64_t batch, std::size_t replica, std::size_t replicas);

/// `replicas` networks of that description as one. Throws as make_network() does.
std::unique_ptr<DataParallel> make_data_parallel(const Description& description,
                                                 const NetworkOptions& options, int replicas);

}  // namespace muster::nn
