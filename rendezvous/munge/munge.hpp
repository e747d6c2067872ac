// SPDX-License-Identifier: Apache-2.0
// Uses the munge daemon of a cluster, which proves which user wrote something. The munge library is loaded
// only when it is wanted.
#pragma once

#include "rendezvous/tls/peer_identity.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace muster::rendezvous {

/// Writes and reads credentials. A credential can be read once, within five minutes, by processes of our own
/// user on hosts that share munge's key. Each call waits for the daemon on this host, which usually takes a
/// millisecond.
class Munge {
 public:
  /// Nothing if this host has no munge library, or no daemon that answers; `reason` says which.
  static std::optional<Munge> load(std::string& reason);

  /// The credential for `text`. Throws std::runtime_error with munge's words.
  std::string encode(std::string_view text) const;

  /// The text in `credential`; nothing, and the reason, unless a process of our own user wrote it.
  std::optional<std::string> decode(const std::string& credential, std::string& reason) const;

 private:
  struct Library;

  explicit Munge(const Library& library) : library_(&library) {}

  const Library* library_;
};

/// The identity "m1/CREDENTIAL" for `peer`, which proves itself by `key`. Throws std::runtime_error.
std::string munge_identity(const Munge& munge, const PeerIdentity& peer, const Secret& key);

/// Whether `identity` has the form of munge_identity().
bool is_munge_identity(std::string_view identity);

/// Reads the text inside a credential of munge_identity(); nothing for any other text. Pure.
std::optional<ProvenClient> client_in_credential(std::string_view text);

/// Reads an identity of munge_identity(). Nothing for any other identity, and for a credential that no
/// process of our user wrote or that was read before; `reason` says which.
std::optional<ProvenClient> read_munge_identity(const Munge& munge, std::string_view identity,
                                                std::string& reason);

/// Reads credentials that anybody who reaches the port can show before proving anything. So the time of each
/// reading is bounded, and so is the number of readings after bad credentials, for one address and for all.
/// One thread.
class CredentialReader {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Milliseconds = std::chrono::milliseconds;
  /// Reads one credential; or returns nothing, and why (empty: the identity is no credential). Called from a
  /// thread of its own, which may outlive the reader.
  using Read = std::function<std::optional<ProvenClient>(const std::string& identity, std::string& reason)>;

  struct Limits {
    /// The time of each wait; no other reading begins while one that took longer still runs.
    Milliseconds wait{300};
    /// The bad credentials in a second, of one address and of all, after which no more are read.
    std::size_t of_address = 4;
    std::size_t of_all = 100;
  };

  explicit CredentialReader(Read read) : CredentialReader(std::move(read), Limits{}) {}

  CredentialReader(Read read, Limits limits) : read_(std::move(read)), limits_(limits) {}

  std::optional<ProvenClient> read(std::string_view identity, const std::string& address, TimePoint now,
                                   std::string& reason);

 private:
  struct Attempt;

  bool may_read(const std::string& address, TimePoint now, std::string& reason);

  Read read_;
  Limits limits_;
  std::shared_ptr<Attempt> unanswered_;
  TimePoint second_{};
  std::size_t bad_ = 0;
  std::unordered_map<std::string, std::size_t> bad_of_;
};

}  // namespace muster::rendezvous
