// SPDX-License-Identifier: Apache-2.0
// The one place that knows whether this is oneDNN 2 or 3: they build primitive descriptors differently (2
// through an operation descriptor, 3 from the arguments themselves). Everything else of the API is the same
// in both.
#pragma once

#include <cstdint>
#include <new>
#include <string>

#if __has_include(<oneapi/dnnl/dnnl.hpp>)
#include <oneapi/dnnl/dnnl.hpp>
#else
#include <dnnl.hpp>
#endif

#include "muster/error.hpp"

namespace muster::nn::cpu {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

inline constexpr auto kFloat = dnnl::memory::data_type::f32;

#if DNNL_VERSION_MAJOR >= 3
inline Dims dims_of(const Desc& desc) {
  return desc.get_dims();
}

inline dnnl::memory::data_type type_of(const Desc& desc) {
  return desc.get_data_type();
}
#else
inline Dims dims_of(const Desc& desc) {
  return desc.dims();
}

inline dnnl::memory::data_type type_of(const Desc& desc) {
  return desc.data_type();
}
#endif

/// An engine and a stream of the CPU. One thread at a time.
struct Runtime {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

/// Runs `make`, which builds primitives; a refusal of oneDNN becomes an Error that says for what. Throws
/// std::bad_alloc where it had no memory.
template <typename Make>
auto build(const std::string& what, Make make) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    throw Error(ErrorCode::unsupported, "oneDNN cannot run " + what + " on this machine: " + error.what());
  }
}

/// Bytes that the library lends to the primitive while it runs, and before and after to others of the thread.
inline std::size_t shared_scratch(const dnnl::primitive& primitive) {
  std::int64_t bytes = 0;
  if (primitive)
    dnnl_primitive_desc_query(primitive.get_primitive_desc(), dnnl_query_memory_consumption_s64, 0, &bytes);
  return static_cast<std::size_t>(bytes);
}

/// A convolution without bias. Padding is above and left of each image, and below and right of it.
struct ConvolutionForm {
  dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
  Dims strides;
  Dims padding;
  Dims padding_after;
};

inline dnnl::convolution_forward::primitive_desc convolution_forward(const Runtime& rt,
                                                                     const ConvolutionForm& form,
                                                                     const Desc& src, const Desc& weights,
                                                                     const Desc& dst) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return {rt.engine,    kKind,        form.algorithm,    src, weights, dst,
          form.strides, form.padding, form.padding_after};
#else
  const dnnl::convolution_forward::desc op(kKind, form.algorithm, src, weights, dst, form.strides,
                                           form.padding, form.padding_after);
  return {op, rt.engine};
#endif
}

inline dnnl::convolution_backward_weights::primitive_desc convolution_backward_weights(
    const Runtime& rt, const ConvolutionForm& form, const Desc& src, const Desc& weights, const Desc& dst,
    const dnnl::convolution_forward::primitive_desc& hint, const dnnl::primitive_attr& attributes = {}) {
#if DNNL_VERSION_MAJOR >= 3
  return {rt.engine,    form.algorithm,     src,  weights,   dst, form.strides,
          form.padding, form.padding_after, hint, attributes};
#else
  const dnnl::convolution_backward_weights::desc op(form.algorithm, src, weights, dst, form.strides,
                                                    form.padding, form.padding_after);
  return {op, attributes, rt.engine, hint};
#endif
}

inline dnnl::convolution_backward_data::primitive_desc convolution_backward_data(
    const Runtime& rt, const ConvolutionForm& form, const Desc& src, const Desc& weights, const Desc& dst,
    const dnnl::convolution_forward::primitive_desc& hint) {
#if DNNL_VERSION_MAJOR >= 3
  return {rt.engine, form.algorithm, src, weights, dst, form.strides, form.padding, form.padding_after, hint};
#else
  const dnnl::convolution_backward_data::desc op(form.algorithm, src, weights, dst, form.strides,
                                                 form.padding, form.padding_after);
  return {op, rt.engine, hint};
#endif
}

inline dnnl::inner_product_forward::primitive_desc inner_product_forward(const Runtime& rt, const Desc& src,
                                                                         const Desc& weights,
                                                                         const Desc& bias, const Desc& dst) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return {rt.engine, kKind, src, weights, bias, dst};
#else
  return {dnnl::inner_product_forward::desc(kKind, src, weights, bias, dst), rt.engine};
#endif
}

inline dnnl::inner_product_backward_weights::primitive_desc inner_product_backward_weights(
    const Runtime& rt, const Desc& src, const Desc& weights, const Desc& bias, const Desc& dst,
    const dnnl::inner_product_forward::primitive_desc& hint) {
#if DNNL_VERSION_MAJOR >= 3
  return {rt.engine, src, weights, bias, dst, hint};
#else
  const dnnl::inner_product_backward_weights::desc op(src, weights, bias, dst);
  return {op, rt.engine, hint};
#endif
}

inline dnnl::inner_product_backward_data::primitive_desc inner_product_backward_data(
    const Runtime& rt, const Desc& src, const Desc& weights, const Desc& dst,
    const dnnl::inner_product_forward::primitive_desc& hint) {
#if DNNL_VERSION_MAJOR >= 3
  return {rt.engine, src, weights, dst, hint};
#else
  const dnnl::inner_product_backward_data::desc op(src, weights, dst);
  return {op, rt.engine, hint};
#endif
}

}  // namespace muster::nn::cpu
