// SPDX-License-Identifier: Apache-2.0
// A key for one TLS connection, carried in the client's identity by munge: what two hosts of a cluster have
// in common when their key files differ.
#pragma once

#include "rendezvous/munge/munge.hpp"
#include "rendezvous/tls/peer_identity.hpp"

#include <string>
#include <string_view>

namespace muster::rendezvous {

/// "m1/CREDENTIAL" for `peer`, which proves itself by `key`. Throws std::runtime_error.
std::string munge_identity(const Munge& munge, const PeerIdentity& peer, const Secret& key);

/// Whether the identity has that form.
bool is_munge_identity(std::string_view identity);

/// Reads the text inside such a credential; nothing for any other text. Pure.
std::optional<ProvenClient> client_in_credential(std::string_view text);

/// Reads such an identity. Nothing for any other, and for a credential that none of our user's processes
/// wrote or that was read before; `reason` says which.
std::optional<ProvenClient> read_munge_identity(const Munge& munge, std::string_view identity,
                                                std::string& reason);

}  // namespace muster::rendezvous
