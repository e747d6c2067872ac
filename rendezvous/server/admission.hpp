// SPDX-License-Identifier: Apache-2.0
// Decides who may speak to the store. PyTorch's clients cannot authenticate, so the kernel is asked for the
// owner of each client's socket.
#pragma once

#include "rendezvous/net/address.hpp"
#include "rendezvous/server/socket_table.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace muster::rendezvous {

enum class Admission {
  same_user,  ///< a process of our user on this host
  by_address  ///< a peer let in by its address (or because the check is off)
  ,
  refused
};

/// The reason for refusing an address.
inline constexpr const char* kNotAllowed = "its address is not among those allowed";

class AdmissionRules {
 public:
  /// `allow_from`: the addresses that may connect; empty: all. `same_user_only`: whether a peer on this host
  /// must run under our uid.
  AdmissionRules(std::vector<Cidr> allow_from, bool same_user_only)
      : allow_from_(std::move(allow_from)), same_user_only_(same_user_only) {}

  /// Whether the address of `peer` is among those allowed.
  bool allows(const SocketAddress& peer) const;

  /// Decides about a connection; call it before reading a byte. `local` is our end of the connection.
  /// `reason` is set when the peer is refused.
  Admission admit(const SocketAddress& peer, const SocketAddress& local, std::string& reason);

  /// Decides by the result of a lookup alone.
  static Admission judge(SocketLookup lookup, const SocketEntry& entry, bool peer_must_be_here, uid_t uid,
                         std::string& reason);

 private:
  std::vector<Cidr> allow_from_;
  bool same_user_only_;
  SocketTable sockets_;
};

}  // namespace muster::rendezvous
