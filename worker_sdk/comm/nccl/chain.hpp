// SPDX-License-Identifier: Apache-2.0
// Records the calls of one rank as a chain of hashes that another rank can compare at any place that both
// have reached. Pure.
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

/// A call and the hash of all calls up to it.
struct Link {
  Call call;
  std::uint64_t hash = 0;
};

static_assert(sizeof(Link) == 48 && std::is_trivially_copyable_v<Link>);

/// The newest part of a chain in the form that is sent.
struct Record {
  std::uint64_t count = 0;  ///< links in the whole chain; 0: none yet
  bool left = false;        ///< whether the chain will get no more links
  std::vector<Link> links;  ///< the newest ones, oldest first

  const Link* at(std::uint64_t position) const;
  std::string encode() const;
  /// Reads a record; empty when the text is none.
  static std::optional<Record> decode(std::string_view text);
};

/// Two different calls at the same place of two chains.
struct Difference {
  Call mine;
  Call theirs;
};

/// One chain of calls. A send and its receive count as the same call, wherever the two ranks are in their
/// collectives. One thread at a time.
class Chain {
 public:
  void append(const Call& call);

  std::uint64_t count() const { return count_; }

  /// The newest `links` links.
  Record record(std::size_t links) const;

  /// The number of links of both chains that are known to be equal after the comparison; `difference` is set
  /// if one is not. The rank that is ahead finds a difference, because it keeps more links than a stream can
  /// hold calls and sends few.
  std::uint64_t compare(const Record& other, std::optional<Difference>& difference) const;

 private:
  /// The number of links that are kept. A device's queue of launches holds about a thousand, so no rank can
  /// be further ahead of one that waits.
  static constexpr std::size_t kKept = 4096;

  const Link* at(std::uint64_t position) const;

  std::uint64_t count_ = 0;
  std::deque<Link> links_;
};

}  // namespace muster::nccl
