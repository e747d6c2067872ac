// SPDX-License-Identifier: Apache-2.0
// The munge daemon of a cluster proves which user wrote something. Its library is loaded when it is wanted.
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

/// A credential can be read once, within five minutes, by processes of our own user on hosts that share
/// munge's key. Each call waits for the daemon on this host, which usually takes a millisecond.
class Munge {
 public:
  /// Nothing if there is no library or no daemon that answers on this host; `reason` says which.
  static std::optional<Munge> load(std::string& reason);

  /// Throws std::runtime_error: what munge says.
  std::string encode(std::string_view text) const;

  /// Nothing, and why, unless one of our own user's processes wrote it.
  std::optional<std::string> decode(const std::string& credential, std::string& reason) const;

 private:
  struct Library;

  explicit Munge(const Library& library) : library_(&library) {}

  const Library* library_;
};

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

/// Reads credentials that are shown before anything is proved, by whoever reaches the port. So the time of
/// each reading is bounded, and the number of readings after bad ones, for one address and for all. One
/// thread.
class CredentialReader {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Milliseconds = std::chrono::milliseconds;
  /// Reads one; or nothing, and why (empty: it is none). Called from a thread of its own, which may outlive
  /// the reader.
  using Read = std::function<std::optional<ProvenClient>(const std::string& identity, std::string& reason)>;

  struct Limits {
    /// Each wait; while the one that was not answered in this time lasts, no other is begun.
    Milliseconds wait{300};
    /// Bad ones in a second.
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
