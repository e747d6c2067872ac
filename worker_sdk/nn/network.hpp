// SPDX-License-Identifier: Apache-2.0
// What a trainer knows of a network, on this machine's processors or on a device: names and shapes of its
// tensors, forward, backward. No library of kernels shows here.
#pragma once

#include "worker_sdk/nn/draw_bits.hpp"
#include "worker_sdk/parallel/parameter.hpp"
#include "worker_sdk/parallel/statistics_exchange.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::nn {

struct Description;

/// The places of one parameter and its gradient: floats in the canonical order of its shape.
struct ParameterSlot {
  float* value = nullptr;
  float* gradient = nullptr;
};

/// How the first values of a parameter are drawn.
struct FirstValues {
  enum class Kind : std::uint8_t { constant, uniform, normal };

  Kind kind = Kind::constant;
  /// The constant; uniform: the numbers are from -scale to scale; normal: the deviation, around 0.
  double scale = 0;
};

/// Everything of a model that leaves the process. Names are those of PyTorch's state_dict() (the ResNets:
/// torchvision's), so that checkpoints and exports are the same tensors; the order is that of forward().
struct ModelSpec {
  std::string name;
  /// Convolutions are out x in x height x width, linear layers out x in.
  std::vector<ParameterSpec> parameters;
  /// One for each parameter.
  std::vector<FirstValues> first_values;
  /// running_mean and running_var of each batch norm, in turn. PyTorch's num_batches_tracked is a matter of
  /// the export only.
  std::vector<ParameterSpec> buffers;
  std::int64_t classes = 10;
  /// Whether it has dropout, which draws numbers in training (Network::set_draws()).
  bool draws = false;

  /// Floats of all parameters, without gaps.
  std::size_t parameter_count() const;
};

/// Whether batch norm takes the statistics of the batch (and moves the running ones) or the running ones.
enum class Mode { train, evaluate };

/// The type in which a network computes; parameters, gradients and logits are 32-bit floats in each. tf32 is
/// f32 but for what convolutions and linear layers multiply, which is rounded to 10 bits behind the point;
/// f16 is IEEE's binary16, whose gradients need a scaled loss (LossScale). Both are matters of GPUs alone.
enum class Precision { f32, tf32, bf16, f16 };

/// Bytes of an element of maps.
constexpr std::size_t bytes_of(Precision precision) {
  return precision == Precision::bf16 || precision == Precision::f16 ? 2 : 4;
}

/// Which activations are computed again in backward instead of being kept ("activation checkpointing": Chen
/// et al., "Training Deep Nets with Sublinear Memory Cost", 2016). The steps of a network are cut into
/// segments. What each of them reads is kept; what their steps compute shares one piece of memory, as large
/// as the largest segment needs it, and backward makes it anew, segment by segment. Results are the same
/// bits.
struct ActivationCheckpoints {
  enum class Kind : std::uint8_t {
    none,   ///< all are kept
    block,  ///< a segment for each residual layer, and for each other one with parameters
    sqrt,   ///< about as many segments as the root of the number of steps, of about equal size
    count,  ///< `segments` of them, of about equal size
  };

  Kind kind = Kind::none;
  std::size_t segments = 0;
};

struct NetworkOptions {
  Precision precision = Precision::f32;
  /// Threads of the OpenMP pool that the kernels use; 0: as set by set_threads().
  int threads = 0;
  /// Statistics over all ranks instead of this one's batch. Outlives the network. Every forward(train) and
  /// its backward() then exchange the same number of times on every rank, a batch of 0 included.
  StatisticsExchange* sync_batch_norm = nullptr;
  ActivationCheckpoints activation_checkpoints = {};
  /// Outputs of the last layer, at least 2.
  std::int64_t classes = 10;
  /// Processors: whether the memory of weights in the kernels' layouts stays when the weights change. Off
  /// where parameters are gathered for each use: then it is there while a unit is used.
  bool keep_weight_copies = true;
};

/// Bytes that the network holds itself: on a host at the largest batch met, on a device at the largest that
/// it was made for. Parameters, gradients and samples are the caller's.
struct MemoryUse {
  std::size_t activations = 0;
  std::size_t workspace = 0;  ///< weights in the kernels' layout, scratch
};

/// Batches of one size that a network meets.
struct BatchSize {
  std::int64_t samples = 0;
  bool trains = true;  ///< backward() follows

  bool operator==(const BatchSize&) const = default;
};

/// What a step of a network keeps from forward to backward. With segments: its part of the memory that they
/// share, for those of the largest one, and what is kept of its input, where a segment begins with it.
struct StepMemory {
  std::string name;  ///< of its first layer
  std::size_t bytes_per_sample = 0;
};

/// Parameters that are used together: those of one layer of the list, or of one residual layer.
struct ParameterUnit {
  std::string name;
  std::size_t first = 0;  ///< numbers of parameters
  std::size_t count = 0;
  std::size_t step = 0;     ///< number in the list of steps
  std::size_t segment = 0;  ///< number of the segment that backward computes again as a whole, ascending
};

/// Told when values of parameters are read and gradients written, for parameters that are not always there.
class UnitUser {
 public:
  virtual ~UnitUser() = default;
  /// forward() begins, and with `trains` backward() comes behind it.
  virtual void begin_pass(bool trains) = 0;
  /// From now on, up to the next unit, forward() (or, `backward`, backward()) reads the values of this one;
  /// backward() writes its gradients.
  virtual void begin_unit(std::size_t unit, bool backward) = 0;
  /// Whether values are there up to the next unit alone.
  virtual bool takes_values_away() const = 0;
};

/// Told the number of a parameter.
using Ready = std::function<void(std::size_t)>;

/// How a network wants its samples to lie, one after the other: images as side x side pixels of `channels`
/// values, the colours first and zeros behind them; features as one such pixel; numbers of tokens as
/// `channels` 32-bit integers.
struct SampleFormat {
  std::int64_t channels = 3;
  Precision type = Precision::f32;
  std::int64_t side = 32;

  /// Bytes of one sample.
  std::size_t bytes() const { return static_cast<std::size_t>(side * side * channels) * bytes_of(type); }
};

/// One model on this machine's processors (make_network()) or on a device
/// (nn/gpu/network/device_network.hpp). On a device all pointers are to its
/// memory, and calls go onto its main stream and return at once, so that they can be recorded in a graph; on
/// a host they are done when they return. One thread at a time.
class Network {
 public:
  virtual ~Network() = default;

  virtual const ModelSpec& spec() const = 0;

  /// The form of what forward() reads.
  virtual SampleFormat sample_format() const = 0;

  /// One slot for each of spec().parameters, one pointer for each of spec().buffers; the memory outlives the
  /// network. Throws Error (invalid_argument) for a wrong number. Before the first forward(), together with
  /// the first parameters_changed().
  virtual void bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) = 0;

  /// All parameters, in the order of forward(). Each unit is begun and ended once in forward(), and in
  /// backward(), where they come in reverse order.
  virtual const std::vector<ParameterUnit>& units() const = 0;

  /// `user`, which outlives the network, is told of every unit from now on. Null: nobody is.
  virtual void set_unit_user(UnitUser* user) = 0;

  /// The values of the parameters are no longer those of the last forward(). The kernels may keep copies in
  /// a layout of their own: a host then drops them, a device makes them anew at once (in the graph that is
  /// recorded). To be called behind the change and before the next forward(); once for all the micro-batches
  /// of a step.
  virtual void parameters_changed() = 0;

  /// What dropout draws from in the next forward() in Mode::train and its backward(); `layer` is not looked
  /// at. On a device not while calls are recorded; those that were recorded after the first set_draws() draw
  /// from the latest one.
  virtual void set_draws(const DropoutKey& draws) = 0;

  /// `batch` samples in sample_format() -> batch x classes logits, valid until the next call; null for a
  /// batch of 0. `inputs` hold until backward() returns (in a graph: wherever it is launched). A batch of 0
  /// is allowed: it moves the running statistics only where they are exchanged with ranks that have samples.
  ///
  /// In Mode::train each batch norm sets running = 0.9 * running + 0.1 * (statistic of the batch), the
  /// variance with Bessel's correction, as PyTorch does with its default momentum. (So a caller who zeroes
  /// the buffers beforehand finds 0.1 * the statistics of this batch.)
  virtual const float* forward(const void* inputs, std::int64_t batch, Mode mode) = 0;

  /// Computes the gradients for the batch of the last forward(), which was in Mode::train, from that of the
  /// logits (batch x classes; not read for a batch of 0). Writes every parameter's gradient to its slot, as
  /// *sums over the samples*, and calls `ready(i)` as soon as the gradient of parameter i stands there (on a
  /// device: as soon as the calls that write it are on the main stream), the last layers first, each i once,
  /// always in the same order. From then on the value of parameter i is not read any more (on a device: by
  /// calls that come later): an optimizer may change it while backward() goes on. With a batch of 0 the
  /// gradients are zero.
  virtual void backward(const float* logits_gradient, const Ready& ready) = 0;

  /// Name of the first layer whose result in the last forward() holds a value that is not finite; empty when
  /// there is none. After a forward() without a backward(), which writes gradients where the results were.
  /// Slow, and waits for a device: for the report of a run that has failed.
  virtual std::string first_not_finite() = 0;

  virtual MemoryUse memory() const = 0;

  /// What memory() will be when batches of these sizes have gone through. Computes nothing and writes to no
  /// memory of such a size, so it may be asked about more than there is; primitives are made, which takes
  /// some milliseconds for each layer and size. Threads are those of the calling thread. On a device a batch
  /// counts that is not above the largest one, too.
  virtual MemoryUse memory_for(std::span<const BatchSize> batches) const = 0;

  /// What memory().activations is made of, for each sample of a batch, in the order of forward().
  virtual std::vector<StepMemory> memory_by_step() const = 0;

  /// Floating-point operations of the convolutions, linear layers and products of attention, forward and
  /// backward, a multiplication and an addition counted as two.
  virtual double flops_per_sample() const = 0;
};

}  // namespace muster::nn
