// SPDX-License-Identifier: Apache-2.0
// The munge daemon of a cluster proves which user wrote something. Its library is loaded when it is wanted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

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

}  // namespace muster::rendezvous
