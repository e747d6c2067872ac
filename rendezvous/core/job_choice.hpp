// SPDX-License-Identifier: Apache-2.0
// Chooses which job of a daemon a hello is for: an existing one, a new one, or none. Pure.
#pragma once

#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/message.hpp"

#include <cstddef>
#include <string>

namespace muster::rendezvous {

/// The job that exists under the name in a hello.
struct KnownJob {
  JobLimits limits;
  /// The node that stated the limits, for texts: "node n00".
  std::string stated_by;
  bool over = false;
  /// Whether the job has nodes but none with a working connection. Their processes may have been killed, and
  /// their names be in use anew.
  bool is_ghost = false;
  /// Whether the hello comes from a node that is in the job, as its incarnation says.
  bool has_peer = false;
};

struct JobChoice {
  enum class Kind {
    join,     ///< the hello is for the existing job, whose coordinator judges it
    create,   ///< the hello makes a new job, in the place of an existing one of that name
    observe,  ///< the hello is for no job; the answer is the daemon's status
    refuse,
  };
  Kind kind = Kind::refuse;
  Errc code = Errc::mend;
  /// The reason of a refusal.
  std::string text{};
};

/// Chooses the job. A run of a job that is over, or of which no node is connected any more, makes room for
/// another run of the same name. A peer of the earlier run, known by its session or its nonce, is not taken
/// into the new one. Without a name, or with the default one of --rdzv-id, no job is chosen. `job`: null if
/// there is none of that name. `living`: the number of jobs that are not over, without `job`.
JobChoice choose_job(const Hello& hello, const KnownJob* job, std::size_t living);

}  // namespace muster::rendezvous
