// SPDX-License-Identifier: Apache-2.0
// Which job of a daemon a hello is for: one that is there, a new one, or none. Pure.
#pragma once

#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/message.hpp"

#include <cstddef>
#include <string>

namespace muster::rendezvous {

/// The job under the name that a hello gives.
struct KnownJob {
  JobLimits limits;
  /// The node that stated them, for texts: "node n00".
  std::string stated_by;
  bool over = false;
  /// It has nodes, and no connection of theirs works. Their processes may have been killed, and their names
  /// be in use anew.
  bool is_ghost = false;
  /// The hello is of a node that is in, as its incarnation says.
  bool has_peer = false;
};

struct JobChoice {
  enum class Kind {
    join,     ///< the job that is there, whose coordinator judges the hello
    create,   ///< a new one, in the place of the one that is there
    observe,  ///< none: the answer is the daemon's status
    refuse,
  };
  Kind kind = Kind::refuse;
  Errc code = Errc::mend;
  /// Of a refusal.
  std::string text{};
};

/// A run of a job that is over, or of which nothing is left, makes room for another of that name. Who belongs
/// to the earlier run, because it knows its session or its nonce, is not taken for the other. Without a
/// name, or with the default one of --rdzv-id, no job is chosen. `job`: null if there is none of that name.
/// `living`: jobs that are not over, that one excepted.
JobChoice choose_job(const Hello& hello, const KnownJob* job, std::size_t living);

}  // namespace muster::rendezvous
