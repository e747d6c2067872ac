// SPDX-License-Identifier: Apache-2.0
// --gather-logs: writes the log files of all nodes here, as they come.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/wire/channel.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::launcher {

/// Most files and bytes that one node may leave here.
struct GatherLimits {
  std::size_t files = 10'000;
  std::uint64_t bytes = std::uint64_t{16} << 30;
};

/// Writes the nodes' log files below `folder`, which is made (0700) with the first file, each node's in the
/// folder of its name. No file that exists is written to, and no link is followed below `folder`.
class LogGather {
 public:
  explicit LogGather(std::string folder, GatherLimits limits = {})
      : folder_(std::move(folder)), limits_(limits) {}

  /// Writes what comes through `channel` to `file`. A node, whose name `file` begins with, sends one file
  /// after the other. Throws std::invalid_argument for what no node sends. Used from one thread; this object
  /// outlives the channel's callbacks.
  void receive(std::size_t node, const std::string& name, std::string_view file,
               std::shared_ptr<rendezvous::Channel> channel);

  /// Returns which files could not be written or came in parts only, one sentence each.
  std::vector<std::string> notes() const;

 private:
  struct Node {
    /// The file that comes now; between two files there is no channel.
    std::string file;
    std::shared_ptr<rendezvous::Channel> channel;
    UniqueFd fd;
    std::size_t files = 0;
    std::uint64_t bytes = 0;
    bool over_limit = false;
  };

  void open(Node& node);
  void write(Node& node, std::string_view bytes);
  void give_up(Node& node, const std::string& what);
  bool within_limits(Node& node);

  std::string folder_;
  GatherLimits limits_;
  std::map<std::size_t, Node> nodes_;
  std::vector<std::string> notes_;
};

}  // namespace muster::launcher
