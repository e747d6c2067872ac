// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/admission.hpp"

#include <unistd.h>

#include <algorithm>

namespace muster::rendezvous {

bool AdmissionRules::allows(const SocketAddress& peer) const {
  const auto holds = [&peer](const Cidr& cidr) { return cidr.contains(peer); };
  return allow_from_.empty() || std::any_of(allow_from_.begin(), allow_from_.end(), holds);
}

Admission AdmissionRules::admit(const SocketAddress& peer, const SocketAddress& local, std::string& reason) {
  if (!allows(peer)) {
    reason = kNotAllowed;
    return Admission::refused;
  }
  if (!same_user_only_) return Admission::by_address;
  // A local program may connect from any address of this host, so every peer is looked up, not only one with
  // a loopback address.
  SocketEntry entry;
  const SocketLookup lookup = sockets_.find(peer, local, entry);
  const bool here = peer.is_loopback() || peer.bytes() == local.bytes();
  return judge(lookup, entry, here, geteuid(), reason);
}

Admission AdmissionRules::judge(SocketLookup lookup, const SocketEntry& entry, bool peer_must_be_here,
                                uid_t uid, std::string& reason) {
  if (lookup == SocketLookup::absent && !peer_must_be_here) return Admission::by_address;
  if (lookup == SocketLookup::unavailable) {
    reason = "the kernel does not tell whose connection it is; --store-admission off goes without that check";
    return Admission::refused;
  }
  // The kernel reports uid 0 and inode 0 for a socket that its owner has closed; this must not pass for
  // root's socket.
  if (lookup == SocketLookup::absent || entry.inode == 0 || !entry.established) {
    reason = "it closed again before its owner could be asked for";
    return Admission::refused;
  }
  if (entry.uid != uid) {
    reason = "it belongs to uid " + std::to_string(entry.uid) + ", not to ours (" + std::to_string(uid) +
             "); workers under another uid need --store-admission off";
    return Admission::refused;
  }
  return Admission::same_user;
}

}  // namespace muster::rendezvous
