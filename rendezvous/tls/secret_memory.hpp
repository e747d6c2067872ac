// SPDX-License-Identifier: Apache-2.0
// Where keys lie, and what keeps others from reading them there.
#pragma once

#include <cstddef>

namespace muster::rendezvous {

/// Bytes of each place.
inline constexpr std::size_t kSecretBytes = 32;

/// A zeroed place in memory that is left out of core dumps and, where `ulimit -l` allows it, never written to
/// swap. Throws std::bad_alloc. Any thread.
unsigned char* take_secret_place();
/// Overwrites and takes back such a place; null is allowed.
void give_back_secret_place(unsigned char* place) noexcept;
/// Overwrites all places but `keep`, which may be null. For a forked process, whose keys are copies: whatever
/// the process that forked it still has in use, this one is to have one of them at most.
void forget_secrets_except(const unsigned char* keep) noexcept;

enum class ProcessFiles {
  closed,
  /// Other processes of this user open files of ours through /proc/<pid>/fd: the kernel ties that to the
  /// permission to read our memory, so only core dumps can be forbidden.
  shared,
};

/// Makes this process one that leaves no core dump and, with `closed`, whose memory and environment no other
/// process of this user can read. For each process that holds keys, a forked one too, since locked memory is
/// not inherited.
void guard_process(ProcessFiles files);

}  // namespace muster::rendezvous
