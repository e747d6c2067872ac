// SPDX-License-Identifier: Apache-2.0
// A handle to wait for a started call.
#pragma once

#include "muster/abi/collectives.h"
#include "muster/check.hpp"

#include <chrono>

namespace muster {
inline namespace v0 {

/// A call that was started and not waited for. Its buffers belong to the call until it is complete.
/// Destroying the Work forgets the call, which goes on. Any thread, one at a time.
class [[nodiscard]] Work {
 public:
  Work() = default;

  /// Takes over a handle of the C calls.
  explicit Work(muster_work* handle) : handle_(handle) {}

  /// Waits until the call is complete on this rank. Throws Error: the one that the call failed with, or
  /// deadline after `limit` (default: as long as the call may take), after which it can be waited for again.
  void wait(std::chrono::milliseconds limit = by_default) {
    detail::check(muster_wait(handle_.get(), limit.count()));
  }

  /// Whether the call is complete. Throws Error once it has failed.
  bool test() {
    int32_t done = 0;
    detail::check(muster_test(handle_.get(), &done));
    return done != 0;
  }

  muster_work* handle() const { return handle_.get(); }

 private:
  detail::Owned<muster_work, muster_work_free> handle_;
};

}  // namespace v0
}  // namespace muster
