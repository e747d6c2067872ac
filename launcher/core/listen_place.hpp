// SPDX-License-Identifier: Apache-2.0
// Where a job's metrics are served (--metrics-listen). Plain data.
#pragma once

#include <string>

namespace muster::launcher {

struct ListenPlace {
  /// "127.0.0.1" or "::1"; empty: `path`.
  std::string host;
  /// 0: a free one.
  int port = 0;
  /// Of a Unix socket.
  std::string path;

  bool given() const { return !host.empty() || !path.empty(); }

  bool operator==(const ListenPlace&) const = default;
};

}  // namespace muster::launcher
