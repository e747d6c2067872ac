// SPDX-License-Identifier: Apache-2.0
// Turns exceptions into return codes and error texts.
#pragma once

#include "muster/abi/types.h"

#include <string>
#include <utility>

namespace muster::abi {

/// The failure that muster_error_text() and muster_error_json() tell.
struct Failure {
  muster_rc code = MUSTER_OK;
  /// The name of the C function, a literal.
  const char* call = "";
  std::string text;
};

/// Called in a catch block: records the exception in flight as the failure of `call`, for this thread and for
/// `handle` (may be null). Returns its code.
muster_rc fail(const char* call, const void* handle) noexcept;

/// The last failure of a call of this thread; its code is MUSTER_OK when no call has failed.
Failure last_failure();

/// Clears last_failure() of this thread.
void forget_failure() noexcept;

/// Runs the body of a C function and turns its exceptions into codes. Throws nothing.
template <class Body>
muster_rc guarded(const char* call, const void* handle, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return MUSTER_OK;
  } catch (...) {
    return fail(call, handle);
  }
}

/// Throws Error (invalid_argument): "`what` is NULL; ..." if `pointer` is null.
void require(const void* pointer, const char* what);

/// Throws the error with which a callback, named `what`, has failed: with the text of the failure if it
/// failed in a call of this library since forget_failure().
void require_ok(muster_rc code, const char* what);

}  // namespace muster::abi
