// SPDX-License-Identifier: Apache-2.0
// Who a key belongs to. Pure.
#pragma once

#include "rendezvous/tls/secret.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace muster::rendezvous {

/// The one client that a key is for. There is no identity of a server: a key serves one direction only, so
/// what one end sent cannot be played back to it (RFC 9257).
struct PeerIdentity {
  enum class Role { agent, launcher, observer } role = Role::agent;
  std::string job;
  std::string node;
  /// Counts the keys given to a node, so that the key of an earlier start is another one.
  std::uint64_t incarnation = 0;

  bool operator==(const PeerIdentity&) const = default;

  /// "v1/agent/JOB/NODE/INCARNATION", the parts percent-escaped.
  std::string text() const;
  /// nullopt for anything that text() does not give.
  static std::optional<PeerIdentity> parse(std::string_view text);
};

/// The identities that are accepted have at most this many bytes.
inline constexpr std::size_t kMaxIdentityBytes = 2048;

/// The key of that client: HKDF-SHA256 of the job secret, with the identity's text as info. 2 us.
Secret derive_key(const Secret& job_secret, const PeerIdentity& identity);

/// The secret of one job, made of a key that opens many.
Secret derive_job_secret(const Secret& key, const std::string& job);

/// A client whose key is not made of the job secret.
struct ProvenClient {
  PeerIdentity peer;
  Secret key;
};

/// Reads identities of another form than PeerIdentity::text(), said by a peer at the address `from`; nothing
/// for those that it does not know.
using ClientResolver =
    std::function<std::optional<ProvenClient>(std::string_view identity, const std::string& from)>;

}  // namespace muster::rendezvous
