// SPDX-License-Identifier: Apache-2.0
// The errors that all C++ calls of the SDK throw.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace muster {

/// The codes say what the caller can do, not where the error arose. The numbers are those of muster.h.
enum class ErrorCode : std::int32_t {
  invalid_argument = -1,  ///< the call is wrong; correct it
  state = -2,             ///< the call does not fit what was done before; see the text
  deadline = -3,          ///< a wait ended; the text says for what and for whom
  peer_lost = -4,         ///< another rank is gone
  mismatch = -5,          ///< the ranks made different calls
  aborted = -6,           ///< abort() was called; the text carries its reason
  backend = -8,           ///< a backend's own library failed; the text carries its words
  out_of_memory = -9,     ///< there is no memory for the call
  io = -10,               ///< a file or the operating system failed
  unsupported = -11,      ///< the call is not possible on this machine or in this build
  store = -12,            ///< the store refused or its connection broke
};

/// Every failure of the SDK. what() is a whole sentence: what happened, where, what to do next.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text) : std::runtime_error(text), code_(code) {}

  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace muster
