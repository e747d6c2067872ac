// SPDX-License-Identifier: Apache-2.0
// The key that the nodes of a peer-started job share: a file that only its owner can read. Every error is a
// LaunchError that says which file and which command mends it; none quotes the key.
#pragma once

#include "launcher/core/launch_error.hpp"
#include "rendezvous/tls/secret.hpp"

#include <string>

namespace muster::launcher {

/// A key, and where it came from for messages ("/home/ann/.config/muster/key").
struct FileKey {
  rendezvous::Secret secret;
  std::string path;
};

/// Says that there is no key, and no place in which one could be made. A key that is there and must not be
/// used is another LaunchError.
class NoPlaceForKey : public LaunchError {
 public:
  using LaunchError::LaunchError;
};

/// Reads --secret-file: at least 64 hexadecimal digits on one line, a regular file of ours, closed to all
/// others.
FileKey read_key_file(const std::string& path);

/// Reads HOME/.config/muster/key and makes it if there is none. Nodes that do so at the same time on a shared
/// home agree on one key. Throws NoPlaceForKey, too.
FileKey own_key(const std::string& home);

/// Returns $HOME if it is absolute, else the home of the user database; empty if there is none.
std::string home_directory();

/// Returns the key that --insecure-no-secret means, which is known to everybody.
rendezvous::Secret no_secret();

}  // namespace muster::launcher
