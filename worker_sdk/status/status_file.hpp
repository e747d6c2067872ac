// SPDX-License-Identifier: Apache-2.0
// The file in memory through which a process shows its status to others.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "worker_sdk/status/layout.hpp"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::status {

/// The address of a status file for another process: the process that holds the file, its descriptor there,
/// and the file's inode, by which the file is recognised. Plain data.
struct Address {
  std::int32_t pid = 0;
  std::int32_t fd = -1;
  std::uint64_t inode = 0;

  /// The text for MUSTER_STATUS: "4711:12:34567".
  std::string to_text() const;
  /// Reads such a text; empty when it is no address.
  static std::optional<Address> from_text(std::string_view text);
};

/// A mapped status file: a memfd without a name, of a fixed size that nobody can change.
class StatusFile {
 public:
  /// Makes a new file. Throws Error (io).
  static StatusFile create();
  /// Opens a file through /proc of the process that holds it. Throws Error (io) if it is not there, not ours,
  /// another file, or of another version.
  static StatusFile open(const Address& address, bool writable);

  ~StatusFile();
  StatusFile(StatusFile&& other) noexcept;
  StatusFile& operator=(StatusFile&& other) noexcept;

  Page& page() const { return *page_; }

  /// The address of the file, valid while its maker holds it.
  Address address() const;

  /// A number that identifies the file on this host as long as a process holds it.
  std::uint64_t inode() const { return inode_; }

 private:
  StatusFile(UniqueFd fd, Page* page, std::uint64_t inode) : fd_(std::move(fd)), page_(page), inode_(inode) {}

  UniqueFd fd_;  ///< the maker keeps it open for the others
  Page* page_ = nullptr;
  std::uint64_t inode_ = 0;
};

}  // namespace muster::status
