// SPDX-License-Identifier: Apache-2.0
// The socket at which a job's metrics are served (--metrics-listen).
#pragma once

#include "launcher/core/listen_place.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <string>
#include <utility>

namespace muster::launcher {

/// Made before anything of a job is started, so that a place that cannot be had refuses the job, and used
/// once there is an event loop. A process that is forked meanwhile has to close fd(), or clients would wait
/// for it when the launcher is gone.
class MetricsSocket {
 public:
  /// None.
  MetricsSocket() = default;

  /// Listens at `place`, if one is given. A Unix socket that nobody listens at any more is replaced. Throws
  /// UsageError where the place is taken, or cannot be had.
  explicit MetricsSocket(const ListenPlace& place);

  /// Does what remove() does.
  ~MetricsSocket();
  MetricsSocket(MetricsSocket&& other) noexcept;
  MetricsSocket& operator=(MetricsSocket&&) = delete;
  MetricsSocket(const MetricsSocket&) = delete;
  MetricsSocket& operator=(const MetricsSocket&) = delete;

  /// Returns the listener, which does not block; -1: none.
  int fd() const { return fd_.get(); }

  /// Hands the listener over, after which this object is there for its name alone.
  UniqueFd release() { return std::move(fd_); }

  bool is_unix() const { return is_unix_; }

  /// Returns "http://127.0.0.1:41234/metrics", or "unix:PATH". Call it before release().
  std::string where() const;

  /// Removes the Unix socket, if there is one.
  void remove();

 private:
  UniqueFd fd_;
  bool is_unix_ = false;
  /// Of a Unix socket that is there.
  std::string path_;
};

}  // namespace muster::launcher
