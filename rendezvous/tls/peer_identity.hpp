// SPDX-License-Identifier: Apache-2.0
// Names the client that a key belongs to, and derives its key. Pure.
#pragma once

#include "rendezvous/tls/secret.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace muster::rendezvous {

/// The one client that a key is for. A server has no identity: a key serves one direction only, so the
/// messages of one end cannot be played back to it (RFC 9257).
struct PeerIdentity {
  enum class Role { agent, launcher, observer } role = Role::agent;
  std::string job;
  std::string node;
  /// A count of the keys given to a node, so that each start of the node has another key.
  std::uint64_t incarnation = 0;

  bool operator==(const PeerIdentity&) const = default;

  /// The identity's text, "v1/agent/JOB/NODE/INCARNATION", with percent-escaped parts.
  std::string text() const;
  /// Reads such a text; nullopt for any text that text() does not give.
  static std::optional<PeerIdentity> parse(std::string_view text);
};

/// The most bytes of an identity that is accepted.
inline constexpr std::size_t kMaxIdentityBytes = 2048;

/// The key of `identity`: HKDF-SHA256 of the job secret, with the identity's text as info. Takes 2 us.
Secret derive_key(const Secret& job_secret, const PeerIdentity& identity);

/// The secret of one job, derived from a key for many jobs.
Secret derive_job_secret(const Secret& key, const std::string& job);

/// A client that has proved who it is by a key that is not made of the job secret.
struct ProvenClient {
  PeerIdentity peer;
  Secret key;
};

/// Reads identities of another form than PeerIdentity::text(), sent by a peer at the address `from`; nothing
/// for unknown forms.
using ClientResolver =
    std::function<std::optional<ProvenClient>(std::string_view identity, const std::string& from)>;

}  // namespace muster::rendezvous
