// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/power_sgd.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/philox.hpp"
#include "worker_sdk/parallel/matrix.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace muster {
namespace {

/// Keeps the factors' random streams apart from those of other users of the same seed.
constexpr std::uint64_t kFactorStreams = std::uint64_t{0x9B} << 56;

/// A parameter that is compressed, as an n x m matrix.
struct Matrix {
  std::size_t index = 0;
  std::size_t n = 0;
  std::size_t m = 0;
  std::size_t offset = 0;    ///< first element in the bucket
  std::size_t q_offset = 0;  ///< first element in all factors q
};

struct CompressedBucket {
  std::vector<Matrix> matrices;
  /// The parameters that are not compressed and travel whole.
  std::vector<BucketParameter> whole;
  std::size_t p_floats = 0;
  std::size_t q_floats = 0;
  std::size_t whole_floats = 0;
};

class PowerSgdHook final : public BucketHook {
 public:
  explicit PowerSgdHook(const PowerSgdOptions& options)
      : options_(options), r_(static_cast<std::size_t>(options.rank)) {}

  std::string describe() const override {
    return "PowerSGD of rank " + std::to_string(options_.rank) + " from step " +
           std::to_string(options_.start_step) + ", share " + std::to_string(options_.largest_share) +
           ", seed " + std::to_string(options_.seed);
  }

  void prepare(ProcessGroup& group, std::span<const BucketView> buckets) override {
    std::size_t q_floats = 0;
    std::size_t arena = 0;
    std::size_t largest = 1;
    for (const BucketView& view : buckets) {
      buckets_.push_back(plan(view, q_floats));
      arena = std::max(arena, view.offset + view.elements);
      const CompressedBucket& bucket = buckets_.back();
      largest = std::max({largest, bucket.p_floats + bucket.whole_floats, bucket.q_floats});
    }
    error_.assign(arena, 0.0F);
    q_.assign(q_floats, 0.0F);
    for (const CompressedBucket& bucket : buckets_)
      for (const Matrix& matrix : bucket.matrices) redraw(matrix);
    wire_ = static_cast<float*>(group.allocate(largest * sizeof(float)));
  }

  void reduce(ProcessGroup& group, const BucketView& view) override {
    if (view.index == 0) ++step_;
    if (step_ <= static_cast<float>(options_.start_step))
      return group.all_reduce(view.gradients, view.elements, DataType::f32, ReduceOp::sum);
    const CompressedBucket& bucket = buckets_[view.index];
    const auto samples = static_cast<float>(view.samples);
    float* error = error_.data() + view.offset;
    add_errors(bucket, view.gradients, error, samples);
    project(group, bucket, view.gradients);
    reduce_factors(group, bucket, view.gradients);
    expand(bucket, view.gradients, error, static_cast<float>(group.size()), samples);
  }

  std::vector<HookState> state() override {
    return {
        {"powersgd.q", q_, false}, {"powersgd.error", error_, true}, {"powersgd.step", {&step_, 1}, false}};
  }

 private:
  CompressedBucket plan(const BucketView& view, std::size_t& q_floats) const {
    CompressedBucket bucket;
    for (const BucketParameter& parameter : view.parameters) {
      const std::size_t elements = parameter.spec->elements();
      const std::size_t n =
          parameter.spec->shape.empty() ? 1 : static_cast<std::size_t>(parameter.spec->shape.front());
      const std::size_t m = elements / n;
      const std::size_t factors = (n + m) * r_;
      if (r_ > std::min(n, m) ||
          static_cast<double>(factors) > options_.largest_share * static_cast<double>(elements)) {
        bucket.whole.push_back(parameter);
        bucket.whole_floats += elements;
        continue;
      }
      bucket.matrices.push_back({parameter.index, n, m, parameter.offset, q_floats});
      bucket.p_floats += n * r_;
      bucket.q_floats += m * r_;
      q_floats += m * r_;
    }
    return bucket;
  }

  /// Gives zero columns of q new random directions, because a zero column would stay zero. The same on all
  /// ranks.
  void redraw(const Matrix& matrix) {
    for (std::size_t k = 0; k < r_; ++k) {
      float* column = q_.data() + matrix.q_offset + k * matrix.m;
      if (std::any_of(column, column + matrix.m, [](float value) { return value != 0; })) continue;
      RandomStream random(options_.seed,
                          kFactorStreams | static_cast<std::uint64_t>(step_) << 32 | (matrix.index * r_ + k));
      for (std::size_t i = 0; i < matrix.m; ++i) column[i] = random.unit() - 0.5F;
    }
  }

  /// Computes M = gradient + error; the copy of M in the error's memory stays until the end of the step.
  static void add_errors(const CompressedBucket& bucket, float* gradients, float* error, float samples) {
    for (const Matrix& matrix : bucket.matrices)
      for (std::size_t i = matrix.offset; i < matrix.offset + matrix.n * matrix.m; ++i)
        error[i] = gradients[i] += error[i] * samples;
  }

  /// Computes this rank's M q, sums it over the ranks, and puts the sum p into the wire memory; the
  /// parameters that travel whole go beside it.
  void project(ProcessGroup& group, const CompressedBucket& bucket, float* gradients) {
    float* p = wire_;
    for (const Matrix& matrix : bucket.matrices) {
      parallel::multiply(gradients + matrix.offset, q_.data() + matrix.q_offset, p, matrix.n, matrix.m, r_);
      p += matrix.n * r_;
    }
    for (const BucketParameter& parameter : bucket.whole)
      p = std::copy_n(gradients + parameter.offset, parameter.spec->elements(), p);
    group.all_reduce(wire_, bucket.p_floats + bucket.whole_floats, DataType::f32, ReduceOp::sum);
    const float* whole = wire_ + bucket.p_floats;
    for (const BucketParameter& parameter : bucket.whole) {
      std::copy_n(whole, parameter.spec->elements(), gradients + parameter.offset);
      whole += parameter.spec->elements();
    }
  }

  /// Makes p orthonormal, and computes q, the sum of M' p over the ranks.
  void reduce_factors(ProcessGroup& group, const CompressedBucket& bucket, const float* gradients) {
    p_.assign(wire_, wire_ + bucket.p_floats);
    float* p = p_.data();
    float* q = wire_;
    for (const Matrix& matrix : bucket.matrices) {
      parallel::orthonormalize(p, matrix.n, r_);
      parallel::multiply_transposed(gradients + matrix.offset, p, q, matrix.n, matrix.m, r_);
      p += matrix.n * r_;
      q += matrix.m * r_;
    }
    if (bucket.q_floats == 0) return;
    group.all_reduce(wire_, bucket.q_floats, DataType::f32, ReduceOp::sum);
    q = wire_;
    for (const Matrix& matrix : bucket.matrices) {
      std::copy_n(q, matrix.m * r_, q_.begin() + static_cast<std::ptrdiff_t>(matrix.q_offset));
      q += matrix.m * r_;
    }
  }

  /// Sets the gradient to p q'. Each rank keeps its part of the difference, per sample.
  void expand(const CompressedBucket& bucket, float* gradients, float* error, float ranks, float samples) {
    const float* p = p_.data();
    for (const Matrix& matrix : bucket.matrices) {
      parallel::outer_product(p, q_.data() + matrix.q_offset, gradients + matrix.offset, matrix.n, matrix.m,
                              r_);
      for (std::size_t i = matrix.offset; i < matrix.offset + matrix.n * matrix.m; ++i)
        error[i] = (error[i] - gradients[i] / ranks) / samples;
      redraw(matrix);
      p += matrix.n * r_;
    }
  }

  const PowerSgdOptions options_;
  const std::size_t r_;
  std::vector<CompressedBucket> buckets_;
  std::vector<float> q_;
  std::vector<float> error_;
  std::vector<float> p_;
  float* wire_ = nullptr;
  float step_ = 0;  ///< a float, so that it can be saved like the other state; exact up to 2^24
};

}  // namespace

std::unique_ptr<BucketHook> make_power_sgd_hook(const PowerSgdOptions& options) {
  if (options.rank < 1 || options.rank > 64 || options.start_step < 0 || options.start_step > (1 << 24) ||
      !(options.largest_share > 0 && options.largest_share <= 1))
    throw Error(ErrorCode::invalid_argument,
                "PowerSGD of rank " + std::to_string(options.rank) + " from step " +
                    std::to_string(options.start_step) + " with a largest share of " +
                    std::to_string(options.largest_share) +
                    "; give a rank of 1 to 64, a step of 0 to 2^24, and a share above 0 and up to 1");
  return std::make_unique<PowerSgdHook>(options);
}

}  // namespace muster
