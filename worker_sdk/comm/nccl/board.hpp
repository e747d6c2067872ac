// SPDX-License-Identifier: Apache-2.0
// Compares the fingerprints of a group's calls between ranks on the host while the device works: each rank
// posts the end of its chain to the store a few times a second and reads the chains of its neighbours in the
// ring. If any two ranks differ, two neighbours do.
#pragma once

#include "worker_sdk/comm/nccl/chain.hpp"
#include "worker_sdk/comm/plugin/plugin_side.hpp"

#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace muster::nccl {

class Board {
 public:
  /// A difference between this rank and another.
  struct Finding {
    int peer = 0;
    Call mine;
    std::optional<Call> theirs;  ///< empty if the other rank has left and will not make this call
  };

  Board(const plugin::Host& host, int rank, int size);

  /// Adds a call to the chain. Called by the thread that makes the calls.
  void record(const Call& call);

  /// Posts new links and reads the posts of others. Called by the watchdog's thread. Throws Error when the
  /// store does.
  std::optional<Finding> exchange();

  /// Whether exchange() has something to post or to wait for.
  bool is_settled();

  /// Posts that this rank makes no more calls. record() must not be called any more.
  void leave();

  /// The state of another rank's chain, as it posted last. Any thread; throws Error when the store does.
  std::optional<Record> read(int peer) const;

  /// The number of collectives that this rank has made.
  std::uint64_t count();

 private:
  /// A chain of this rank, and the key at which it is posted.
  struct PostedChain {
    std::string key;
    Chain chain;
    std::uint64_t posted = 0;
  };

  /// A chain of another rank that must equal one of this rank's.
  struct Watch {
    PostedChain* own;
    int peer;
    std::string key;
    std::uint64_t equal = 0;
  };

  PostedChain& chain_to(int peer, bool sends);
  void post();
  std::optional<Finding> compare(Watch& watch, const Record& record);

  plugin::Host host_;
  int rank_;
  std::mutex mutex_;  ///< protects the members that follow; not held while the store is asked
  std::list<PostedChain> chains_;
  std::list<Watch> watches_;
  std::map<std::pair<int, bool>, PostedChain*> messages_;
};

}  // namespace muster::nccl
