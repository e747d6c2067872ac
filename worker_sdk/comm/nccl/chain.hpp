// SPDX-License-Identifier: Apache-2.0
// What one rank has called, as a chain of hashes that another rank can compare at any place both have
// reached. Pure.
#pragma once

#include "worker_sdk/comm/call.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace muster::nccl {

/// A call and the hash of everything up to it.
struct Link {
  Call call;
  std::uint64_t hash = 0;
};

static_assert(sizeof(Link) == 48 && std::is_trivially_copyable_v<Link>);

/// The newest part of a chain as it travels.
struct Record {
  std::uint64_t count = 0;  ///< links in the whole chain; 0: none yet
  bool left = false;        ///< there will be no more
  std::vector<Link> links;  ///< the newest ones, oldest first

  const Link* at(std::uint64_t position) const;
  std::string encode() const;
  /// Empty when the text is no record.
  static std::optional<Record> decode(std::string_view text);
};

/// Two calls at the same place of two chains that are not the same.
struct Difference {
  Call mine;
  Call theirs;
};

/// One thread at a time. A send and its receive are the same call here, wherever the ranks stand in their
/// collectives.
class Chain {
 public:
  void append(const Call& call);

  std::uint64_t count() const { return count_; }

  /// The newest `links` links.
  Record record(std::size_t links) const;

  /// How many links of both chains are known to be equal after this; `difference` is set where one is not.
  /// The rank that is ahead finds it: it keeps more links than a stream can hold calls, and sends few.
  std::uint64_t compare(const Record& other, std::optional<Difference>& difference) const;

 private:
  /// A device's queue of launches holds about a thousand; nobody can be further ahead of a rank that waits.
  static constexpr std::size_t kKept = 4096;

  const Link* at(std::uint64_t position) const;

  std::uint64_t count_ = 0;
  std::deque<Link> links_;
};

}  // namespace muster::nccl
