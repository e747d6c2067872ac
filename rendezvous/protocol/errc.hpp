// SPDX-License-Identifier: Apache-2.0
// Errors of the control protocol, grouped by what the caller does next, not by where they arose.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace muster::rendezvous {

enum class Errc {
  again,        ///< nothing is wrong with the request: make it again later, with backoff
  rejoin,       ///< the round is over: stop the workers, leave it, join the next one
  mend,         ///< the request itself is wrong: correct it (a name in use, a bad number, a bad frame)
  upgrade,      ///< the two sides speak different versions: install the same one on both
  job_over,     ///< the job has ended: stop
  lost,         ///< the connection is gone: stop the workers, or connect anew
  deadline,     ///< a wait ended; the text says for what and for whom
  environment,  ///< the coordinator's machine refused (a busy port): tell the user
};

/// The code's name on the wire, for example "rejoin".
std::string_view to_string(Errc code);
std::optional<Errc> errc_from(std::string_view name);

/// An error whose what() is a whole sentence: what happened, where, and what to do next.
class CoordinatorError : public std::runtime_error {
 public:
  CoordinatorError(Errc code, const std::string& text) : std::runtime_error(text), code_(code) {}

  Errc code() const { return code_; }

 private:
  Errc code_;
};

}  // namespace muster::rendezvous
