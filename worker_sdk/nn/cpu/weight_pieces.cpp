// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/weight_pieces.hpp"

#include "worker_sdk/nn/cpu/processors.hpp"
#include "worker_sdk/nn/network.hpp"

#include <algorithm>
#include <utility>

namespace muster::nn::cpu {
namespace {

constexpr std::int64_t kMostPieces = 4;

/// While it lives, oneDNN makes primitives for one thread.
class OneThread {
 public:
  OneThread() : before_(threads()) { set_threads(1); }

  ~OneThread() { set_threads(before_); }

  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

/// `images` of those that `all` describes, from the first.
Desc first_images(const Desc& all, std::int64_t images) {
  Dims dims = dims_of(all);
  dims[0] = images;
  return all.submemory_desc(dims, Dims(dims.size(), 0));
}

void* shifted(const void* data, std::size_t bytes) {
  return const_cast<char*>(static_cast<const char*>(data) + bytes);
}

}  // namespace

std::int64_t WeightPieces::count_for(std::int64_t batch) {
  const std::int64_t available = threads();
  return available > kMostPieces ? 1 : std::min(available, batch);
}

WeightPieces::WeightPieces(const Runtime& rt, const ConvolutionForm& form, const Desc& src,
                           const Desc& weights, const Desc& dst, std::int64_t count)
    : pieces_(static_cast<std::size_t>(count)) {
  const OneThread guard;
  const Desc forward_weights(dims_of(weights), type_of(src), Tag::any);
  const std::int64_t batch = dims_of(src)[0];
  const auto image_bytes = [batch](const Desc& all) {
    return all.get_size() / static_cast<std::size_t>(batch);
  };
  for (std::int64_t k = 0; k < count; ++k) {
    Piece& piece = pieces_[static_cast<std::size_t>(k)];
    const std::int64_t begin = batch * k / count;
    const std::int64_t images = batch * (k + 1) / count - begin;
    piece.src_offset = static_cast<std::size_t>(begin) * image_bytes(src);
    piece.dst_offset = static_cast<std::size_t>(begin) * image_bytes(dst);
    const Desc src_piece = first_images(src, images);
    const Desc dst_piece = first_images(dst, images);
    // Scratch memory that the library keeps would be that of the thread that made the primitive.
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto desc = convolution_backward_weights(
        rt, form, src_piece, k == 0 ? weights : layout_, dst_piece,
        convolution_forward(rt, form, src_piece, forward_weights, dst_piece), attributes);
    piece.stream = dnnl::stream(rt.engine);
    piece.primitive = dnnl::convolution_backward_weights(desc);
    if (k == 0) layout_ = desc.diff_weights_desc();
    piece.src = dnnl::memory(src_piece, rt.engine, nullptr);
    piece.dst = dnnl::memory(dst_piece, rt.engine, nullptr);
    piece.gradient = k == 0 ? dnnl::memory(layout_, rt.engine, nullptr) : dnnl::memory(layout_, rt.engine);
    piece.scratch = dnnl::memory(desc.scratchpad_desc(), rt.engine);
  }
}

void WeightPieces::run(const void* src, const void* dst_gradient, const dnnl::memory& gradient) {
  auto* const sum = static_cast<float*>(gradient.get_data_handle());
  pieces_[0].gradient.set_data_handle(sum);
#pragma omp parallel for schedule(static)
  for (std::size_t k = 0; k < pieces_.size(); ++k) {
    Piece& piece = pieces_[k];
    piece.src.set_data_handle(shifted(src, piece.src_offset));
    piece.dst.set_data_handle(shifted(dst_gradient, piece.dst_offset));
    piece.primitive.execute(piece.stream, {{DNNL_ARG_SRC, piece.src},
                                           {DNNL_ARG_DIFF_DST, piece.dst},
                                           {DNNL_ARG_DIFF_WEIGHTS, piece.gradient},
                                           {DNNL_ARG_SCRATCHPAD, piece.scratch}});
  }
  add_up(sum);
}

void WeightPieces::add_up(float* sum) const {
  const std::size_t count = layout_.get_size() / sizeof(float);
  for (std::size_t k = 1; k < pieces_.size(); ++k) {
    const auto* more = static_cast<const float*>(pieces_[k].gradient.get_data_handle());
#pragma omp parallel for simd schedule(static)
    for (std::size_t i = 0; i < count; ++i) sum[i] += more[i];
  }
}

std::size_t WeightPieces::bytes() const {
  std::size_t sum = 0;
  for (std::size_t k = 0; k < pieces_.size(); ++k)
    sum += pieces_[k].scratch.get_desc().get_size() + (k == 0 ? 0 : layout_.get_size());
  return sum;
}

}  // namespace muster::nn::cpu
