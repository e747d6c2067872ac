// SPDX-License-Identifier: Apache-2.0
// Credentials that strangers show, read without waiting long for the daemon that reads them.
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
