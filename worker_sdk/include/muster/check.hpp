// SPDX-License-Identifier: Apache-2.0
// Turns return codes into muster::Error.
#pragma once

#include "muster/abi/types.h"
#include "muster/cxx20.hpp"
#include "muster/error.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace muster {
inline namespace v0 {

/// Stands for the SDK's default of a deadline or limit.
inline constexpr std::chrono::milliseconds by_default{0};

namespace detail {

[[noreturn]] inline void raise(muster_rc rc) {
  throw Error(static_cast<ErrorCode>(rc), muster_error_text(nullptr));
}

/// Throws muster::Error for a failure of the call just made by this thread.
inline void check(muster_rc rc) {
  if (rc != MUSTER_OK) raise(rc);
}

/// Frees a handle of the C calls; one that its owner has freed already is fine.
template <auto free>
struct Release {
  template <class Handle>
  void operator()(Handle* handle) const {
    static_cast<void>(free(handle));
  }
};

template <class Handle, auto free>
using Owned = std::unique_ptr<Handle, Release<free>>;

}  // namespace detail
}  // namespace v0
}  // namespace muster
