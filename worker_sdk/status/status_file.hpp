// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "worker_sdk/status/layout.hpp"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::status {

/// Where another process finds a status file: the process that holds it, its descriptor there, and the file's
/// inode, by which it is known. Plain data.
struct Address {
  std::int32_t pid = 0;
  std::int32_t fd = -1;
  std::uint64_t inode = 0;

  /// "4711:12:34567", the value of MUSTER_STATUS.
  std::string to_text() const;
  /// Empty when the text is no address.
  static std::optional<Address> from_text(std::string_view text);
};

/// A mapped status file: a memfd without a name, of a fixed size that nobody can change.
class StatusFile {
 public:
  /// Throws Error (io).
  static StatusFile create();
  /// Opens one through /proc of the process that holds it. Throws Error (io): not there, not ours, another
  /// file, another version.
  static StatusFile open(const Address& address, bool writable);

  ~StatusFile();
  StatusFile(StatusFile&& other) noexcept;
  StatusFile& operator=(StatusFile&& other) noexcept;

  Page& page() const { return *page_; }

  /// Valid while the maker holds it.
  Address address() const;

  /// Identifies the file on this host as long as anybody holds it.
  std::uint64_t inode() const { return inode_; }

 private:
  StatusFile(UniqueFd fd, Page* page, std::uint64_t inode) : fd_(std::move(fd)), page_(page), inode_(inode) {}

  UniqueFd fd_;  ///< the maker keeps it open for the others
  Page* page_ = nullptr;
  std::uint64_t inode_ = 0;
};

}  // namespace muster::status
