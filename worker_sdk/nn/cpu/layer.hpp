// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/cpu/onednn.hpp"

#include <cstdint>

namespace muster::nn::cpu {

/// oneDNN reads constant arguments through the same handle type as others.
inline void* handle(const float* data) {
  return const_cast<float*>(data);
}

/// A view of memory that someone else owns; the pointer is set for each call.
inline dnnl::memory view(const Desc& desc, const Runtime& rt, const float* data) {
  return {desc, rt.engine, handle(data)};
}

/// Copies between two layouts of one tensor; nothing when they are the same and share memory.
class Reorder {
 public:
  Reorder() = default;

  Reorder(const dnnl::memory& from, const dnnl::memory& to) : from_(from), to_(to) {
    if (from.get_desc() != to.get_desc()) primitive_ = dnnl::reorder(from, to);
  }

  void run(const Runtime& rt) {
    if (primitive_) primitive_.execute(rt.stream, {{DNNL_ARG_FROM, from_}, {DNNL_ARG_TO, to_}});
  }

 private:
  dnnl::primitive primitive_;
  dnnl::memory from_;
  dnnl::memory to_;
};

/// `plain` itself where the library's preferred layout is the plain one, else memory of its own in that
/// layout.
inline dnnl::memory in_layout(const Desc& preferred, const dnnl::memory& plain, const Runtime& rt) {
  if (preferred == plain.get_desc()) return plain;
  return {preferred, rt.engine};
}

}  // namespace muster::nn::cpu
