// SPDX-License-Identifier: Apache-2.0
// Who may speak to the store. PyTorch's clients cannot authenticate, so the kernel is asked whose they are.
#pragma once

#include "rendezvous/net/address.hpp"
#include "rendezvous/server/socket_table.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace muster::rendezvous {

enum class Admission {
  same_user,  ///< on this host, and ours
  by_address  ///< let in by its address (or because the check is off)
  ,
  refused
};

/// Why an address is refused.
inline constexpr const char* kNotAllowed = "its address is not among those allowed";

class AdmissionRules {
 public:
  /// `allow_from` empty: any address. `same_user_only`: a peer on this host must run under our uid.
  AdmissionRules(std::vector<Cidr> allow_from, bool same_user_only)
      : allow_from_(std::move(allow_from)), same_user_only_(same_user_only) {}

  /// Whether the address of `peer` is among those allowed.
  bool allows(const SocketAddress& peer) const;

  /// Ask before reading a byte. `local` is our end of the connection. `reason` is set when refused.
  Admission admit(const SocketAddress& peer, const SocketAddress& local, std::string& reason);

  /// The decision alone, for a lookup that was made.
  static Admission judge(SocketLookup lookup, const SocketEntry& entry, bool peer_must_be_here, uid_t uid,
                         std::string& reason);

 private:
  std::vector<Cidr> allow_from_;
  bool same_user_only_;
  SocketTable sockets_;
};

}  // namespace muster::rendezvous
