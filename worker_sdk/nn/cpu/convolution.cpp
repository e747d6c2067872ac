// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/convolution.hpp"

#include "worker_sdk/nn/cpu/layer.hpp"
#include "worker_sdk/nn/cpu/weight_pieces.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace muster::nn::cpu {
namespace {

void* writable(const void* data) {
  return const_cast<void*>(data);
}

/// Input channels as the kernels see them: for three of bf16 there is only the definition, so a fourth of
/// zeros is added.
std::int64_t kernel_channels(const ConvolutionShape& s) {
  return s.of_images && s.format.bf16 ? (s.in_channels + 3) / 4 * 4 : s.in_channels;
}

bool is_padded(const ConvolutionShape& s) {
  return kernel_channels(s) != s.in_channels;
}

/// Weights as PyTorch has them, with the added channels.
Desc plain_weights(const ConvolutionShape& s) {
  return {{s.out_channels, kernel_channels(s), s.kernel, s.kernel}, kFloat, Tag::oihw};
}

/// Rows of the kernel, and columns, that ever meet a pixel: the others only ever multiply padding. Of a
/// 3 x 3 kernel on a map of one pixel that is the middle one, a ninth of the work and of the weights.
struct Taps {
  explicit Taps(const ConvolutionShape& s) {
    first = std::max<std::int64_t>(0, s.padding - (s.out_side() - 1) * s.stride);
    count = std::min(s.kernel, s.padding + s.side) - first;
    before = s.padding - first;
    after = (s.out_side() - 1) * s.stride + count - s.side - before;
  }

  std::int64_t first = 0, count = 0;
  std::int64_t before = 0, after = 0;  ///< padding that is left
};

/// Those of the plain weights that meet pixels, from the first.
Desc met_weights(const ConvolutionShape& s) {
  const Taps taps(s);
  return plain_weights(s).submemory_desc({s.out_channels, kernel_channels(s), taps.count, taps.count},
                                         {0, 0, taps.first, taps.first});
}

ConvolutionForm form_of(const ConvolutionShape& s, dnnl::algorithm algorithm) {
  const Taps taps(s);
  return {algorithm, {s.stride, s.stride}, {taps.before, taps.before}, {taps.after, taps.after}};
}

/// Copies rows of `from_row` floats to rows of `to_row`; what is longer is filled with zeros or left out.
void copy_rows(const float* from, std::size_t from_row, float* to, std::size_t to_row, std::size_t rows) {
  const std::size_t both = std::min(from_row, to_row);
  for (std::size_t r = 0; r < rows; ++r) {
    std::copy_n(from + r * from_row, both, to + r * to_row);
    std::fill_n(to + r * to_row + both, to_row - both, 0.0F);
  }
}

/// Images of f32 to images of bf16 with the added channels, rounded to nearest.
void pad_images(const float* from, const ConvolutionShape& s, std::int64_t batch, std::uint16_t* to) {
  const std::int64_t pixels = batch * s.side * s.side;
  const std::int64_t channels = kernel_channels(s);
#pragma omp parallel for schedule(static)
  for (std::int64_t p = 0; p < pixels; ++p)
    for (std::int64_t c = 0; c < channels; ++c) {
      const float value = c < s.in_channels ? from[p * s.in_channels + c] : 0.0F;
      const auto bits = std::bit_cast<std::uint32_t>(value);
      const std::uint32_t rounded = std::isnan(value) ? bits : bits + 0x7FFFU + ((bits >> 16) & 1U);
      to[p * channels + c] = static_cast<std::uint16_t>(rounded >> 16);
    }
}

/// The tensors of one batch size, as the library is asked for them.
struct Descs {
  Descs(const ConvolutionShape& s, std::int64_t batch)
      : images({batch, s.in_channels, s.side, s.side}, kFloat, Tag::nhwc),
        src({batch, kernel_channels(s), s.side, s.side}, s.format.type(),
            s.of_images && s.format.blocked ? Tag::any : s.format.tag()),
        weights(dims_of(met_weights(s)), s.format.type(), Tag::any),
        weights_gradient(dims_of(met_weights(s)), kFloat, Tag::any),
        dst({batch, s.out_channels, s.out_side(), s.out_side()}, s.format.type(), s.format.tag()) {}

  Desc images, src, weights, weights_gradient, dst;
};

/// Winograd's method pays where its 4 x 4 tiles of results are not mostly padding.
bool wants_winograd(const ConvolutionShape& s) {
  return !s.format.bf16 && s.format.blocked && !s.of_images && s.kernel == 3 && s.stride == 1 &&
         s.padding == 1 && s.side >= 4;
}

}  // namespace

/// Copies of the weights in the layouts that the primitives want, made anew when the weights have changed.
class Convolution::Packed {
 public:
  Packed() = default;

  /// Unless it keeps them, the memory of copies is given back when the weights change.
  Packed(const ConvolutionShape& shape, const ParameterSlot& weight, bool keeps)
      : shape_(shape), values_(weight.value), keeps_(keeps) {
    if (is_padded(shape)) padded_.resize(plain_weights(shape).get_size() / sizeof(float));
  }

  /// The copy in `layout` is the same object for all who ask.
  std::size_t find(const Desc& layout, const Runtime& rt) {
    for (std::size_t i = 0; i < copies_.size(); ++i)
      if (copies_[i].memory.get_desc() == layout) return i;
    const dnnl::memory plain = view(met_weights(shape_), rt, padded_.empty() ? values_ : padded_.data());
    Copy& copy = copies_.emplace_back();
    copy.is_plain = layout == plain.get_desc();
    copy.memory = copy.is_plain ? plain : view(layout, rt, nullptr);
    copy.pack = Reorder(plain, copy.memory);
    return copies_.size() - 1;
  }

  const dnnl::memory& fresh(std::size_t index, const Runtime& rt) {
    Copy& copy = copies_[index];
    if (copy.fresh) return copy.memory;
    if (copy.place == nullptr && !copy.is_plain) {
      copy.place = std::make_unique<Buffer>();
      copy.place->reserve(copy.memory.get_desc().get_size());
      copy.memory.set_data_handle(copy.place->data());
    }
    const auto taps = static_cast<std::size_t>(shape_.kernel * shape_.kernel);
    if (!padded_.empty())
      copy_rows(values_, static_cast<std::size_t>(shape_.in_channels) * taps, padded_.data(),
                static_cast<std::size_t>(kernel_channels(shape_)) * taps,
                static_cast<std::size_t>(shape_.out_channels));
    copy.pack.run(rt);
    copy.fresh = true;
    return copy.memory;
  }

  void weights_changed() {
    for (Copy& copy : copies_) {
      copy.fresh = false;
      if (!keeps_) copy.place = nullptr;
    }
  }

  /// Now, or with all copies there.
  std::size_t bytes(bool all = false) const {
    std::size_t sum = padded_.size() * sizeof(float);
    for (const Copy& copy : copies_)
      if (copy.place != nullptr || (all && !copy.is_plain)) sum += copy.memory.get_desc().get_size();
    return sum;
  }

 private:
  struct Copy {
    dnnl::memory memory;
    Reorder pack;
    std::unique_ptr<Buffer> place;  ///< null: there is none now, or the weights are used as they are
    bool is_plain = false;
    bool fresh = false;
  };

  ConvolutionShape shape_;
  const float* values_ = nullptr;
  bool keeps_ = true;
  std::vector<float> padded_;
  std::deque<Copy> copies_;
};

struct Convolution::Plan {
  Plan(const Runtime& rt, const ConvolutionShape& shape, Packed& packed, std::int64_t batch);

  void build_forward(const Runtime& rt, const ConvolutionShape& shape, dnnl::algorithm algorithm);
  void build_backward(const Runtime& rt, const ConvolutionShape& shape, const ParameterSlot& weight,
                      Packed& packed);

  Workspace workspace() const;

  const Descs descs;
  ConvolutionForm form;
  dnnl::convolution_forward::primitive_desc forward_desc;
  dnnl::primitive forward, src_gradient;
  // One of the two, built by the first backward_weights().
  dnnl::primitive weights_gradient;
  std::unique_ptr<WeightPieces> weight_pieces;
  std::size_t forward_weights = 0, backward_weights = 0;
  /// Views of the caller's maps; `converted` holds images in the kernels' layout and type.
  dnnl::memory src, dst, images, converted, gradient;
  std::size_t gradient_bytes = 0;  ///< of `gradient`, where that is not the caller's
  std::vector<float> padded_gradient;
  Reorder convert, unpack;
};

Workspace Convolution::Plan::workspace() const {
  Workspace sum = {gradient_bytes + padded_gradient.size() * sizeof(float), 0};
  if (converted) sum.own += converted.get_desc().get_size();
  if (weight_pieces) sum.own += weight_pieces->bytes();
  for (const dnnl::primitive* primitive : {&forward, &src_gradient, &weights_gradient})
    sum.shared = std::max(sum.shared, shared_scratch(*primitive));
  return sum;
}

void Convolution::Plan::build_forward(const Runtime& rt, const ConvolutionShape& shape,
                                      dnnl::algorithm algorithm) {
  form = form_of(shape, algorithm);
  forward_desc = convolution_forward(rt, form, descs.src, descs.weights, descs.dst);
}

Convolution::Plan::Plan(const Runtime& rt, const ConvolutionShape& shape, Packed& packed, std::int64_t batch)
    : descs(shape, batch) {
  bool built = false;
  if (wants_winograd(shape)) {
    try {
      build_forward(rt, shape, dnnl::algorithm::convolution_winograd);
      built = true;
    } catch (const dnnl::error&) {
      // Not offered for this shape or processor: the definition itself is.
    }
  }
  if (!built) build_forward(rt, shape, dnnl::algorithm::convolution_direct);
  forward = dnnl::convolution_forward(forward_desc);
  forward_weights = packed.find(forward_desc.weights_desc(), rt);
  src = view(forward_desc.src_desc(), rt, nullptr);
  dst = view(descs.dst, rt, nullptr);
  if (!shape.of_images || forward_desc.src_desc() == descs.images) return;
  converted = {forward_desc.src_desc(), rt.engine};
  if (is_padded(shape)) return;
  images = view(descs.images, rt, nullptr);
  convert = Reorder(images, converted);
}

void Convolution::Plan::build_backward(const Runtime& rt, const ConvolutionShape& shape,
                                       const ParameterSlot& weight, Packed& packed) {
  const std::int64_t pieces = form.algorithm == dnnl::algorithm::convolution_winograd
                                  ? 1
                                  : WeightPieces::count_for(dims_of(descs.dst)[0]);
  Desc layout;
  if (pieces > 1) {
    weight_pieces = std::make_unique<WeightPieces>(rt, form, forward_desc.src_desc(), descs.weights_gradient,
                                                   descs.dst, pieces);
    layout = weight_pieces->layout();
  } else {
    const auto by_weights = convolution_backward_weights(rt, form, forward_desc.src_desc(),
                                                         descs.weights_gradient, descs.dst, forward_desc);
    weights_gradient = dnnl::convolution_backward_weights(by_weights);
    layout = by_weights.diff_weights_desc();
  }
  if (is_padded(shape)) padded_gradient.resize(plain_weights(shape).get_size() / sizeof(float));
  const dnnl::memory plain =
      view(met_weights(shape), rt, is_padded(shape) ? padded_gradient.data() : weight.gradient);
  gradient = in_layout(layout, plain, rt);
  if (layout != plain.get_desc()) gradient_bytes = layout.get_size();
  unpack = Reorder(gradient, plain);
  if (shape.of_images) return;
  const auto by_data = convolution_backward_data(rt, form, descs.src, descs.weights, descs.dst, forward_desc);
  src_gradient = dnnl::convolution_backward_data(by_data);
  backward_weights = packed.find(by_data.weights_desc(), rt);
}

Convolution::Convolution(std::shared_ptr<const Runtime> runtime, const ConvolutionShape& shape,
                         bool keeps_copies)
    : runtime_(std::move(runtime)),
      shape_(shape),
      keeps_copies_(keeps_copies),
      packed_(std::make_unique<Packed>()) {}

Convolution::~Convolution() = default;

void Convolution::bind(const ParameterSlot& weight) {
  weight_ = weight;
  plans_.clear();
  packed_ = std::make_unique<Packed>(shape_, weight, keeps_copies_);
}

void Convolution::weights_changed() {
  packed_->weights_changed();
}

Convolution::Plan& Convolution::plan_for(std::int64_t batch) {
  std::unique_ptr<Plan>& plan = plans_[batch];
  if (plan == nullptr)
    plan = build("a convolution on " + std::to_string(batch) + " images",
                 [&] { return std::make_unique<Plan>(*runtime_, shape_, *packed_, batch); });
  return *plan;
}

void Convolution::forward(const void* src, std::int64_t batch, void* dst) {
  if (batch == 0) return;
  const Runtime& rt = *runtime_;
  Plan& plan = plan_for(batch);
  if (plan.converted) {
    if (is_padded(shape_)) {
      pad_images(static_cast<const float*>(src), shape_, batch,
                 static_cast<std::uint16_t*>(plan.converted.get_data_handle()));
    } else {
      plan.images.set_data_handle(writable(src));
      plan.convert.run(rt);
    }
    src = plan.converted.get_data_handle();
  }
  plan.src.set_data_handle(writable(src));
  plan.dst.set_data_handle(dst);
  plan.forward.execute(rt.stream, {{DNNL_ARG_SRC, plan.src},
                                   {DNNL_ARG_WEIGHTS, packed_->fresh(plan.forward_weights, rt)},
                                   {DNNL_ARG_DST, plan.dst}});
}

void Convolution::backward_weights(const void* src, const void* dst_gradient, std::int64_t batch) {
  const std::int64_t weights = shape_.out_channels * shape_.in_channels * shape_.kernel * shape_.kernel;
  if (batch == 0 || Taps(shape_).count < shape_.kernel) std::fill_n(weight_.gradient, weights, 0.0F);
  if (batch == 0) return;
  const Runtime& rt = *runtime_;
  Plan& plan = plan_for(batch);
  if (!plan.gradient)
    build("the gradients of a convolution on " + std::to_string(batch) + " images", [&] {
      plan.build_backward(rt, shape_, weight_, *packed_);
      return 0;
    });
  if (plan.converted) src = plan.converted.get_data_handle();
  if (plan.weight_pieces) {
    plan.weight_pieces->run(src, dst_gradient, plan.gradient);
  } else {
    plan.src.set_data_handle(writable(src));
    plan.dst.set_data_handle(writable(dst_gradient));
    plan.weights_gradient.execute(
        rt.stream,
        {{DNNL_ARG_SRC, plan.src}, {DNNL_ARG_DIFF_DST, plan.dst}, {DNNL_ARG_DIFF_WEIGHTS, plan.gradient}});
  }
  plan.unpack.run(rt);
  const auto taps = static_cast<std::size_t>(shape_.kernel * shape_.kernel);
  if (is_padded(shape_))
    copy_rows(plan.padded_gradient.data(), static_cast<std::size_t>(kernel_channels(shape_)) * taps,
              weight_.gradient, static_cast<std::size_t>(shape_.in_channels) * taps,
              static_cast<std::size_t>(shape_.out_channels));
}

void Convolution::backward_data(const void* dst_gradient, std::int64_t batch, void* src_gradient) {
  if (batch == 0) return;
  const Runtime& rt = *runtime_;
  Plan& plan = plan_for(batch);
  plan.src.set_data_handle(src_gradient);
  plan.dst.set_data_handle(writable(dst_gradient));
  plan.src_gradient.execute(rt.stream, {{DNNL_ARG_DIFF_DST, plan.dst},
                                        {DNNL_ARG_WEIGHTS, packed_->fresh(plan.backward_weights, rt)},
                                        {DNNL_ARG_DIFF_SRC, plan.src}});
}

Workspace Convolution::workspace() const {
  Workspace sum = {packed_->bytes(), 0};
  for (const auto& [batch, plan] : plans_) sum.add(plan->workspace());
  return sum;
}

Workspace Convolution::workspace_for(std::span<const BatchSize> batches) const {
  Packed packed(shape_, {}, true);
  Workspace sum;
  for (const BatchSize& batch : batches) {
    if (batch.samples == 0) continue;
    build("a convolution on " + std::to_string(batch.samples) + " images", [&] {
      Plan plan(*runtime_, shape_, packed, batch.samples);
      if (batch.trains) plan.build_backward(*runtime_, shape_, {}, packed);
      sum.add(plan.workspace());
      return 0;
    });
  }
  sum.own += packed.bytes(true);
  return sum;
}

}  // namespace muster::nn::cpu
