// SPDX-License-Identifier: Apache-2.0
// Keeps the jobs of a daemon and gives each hello to its job. Includes Asio.
#pragma once

#include "rendezvous/core/job_choice.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/daemon/coordinator_service.hpp"
#include "rendezvous/server/listen/control_port.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::rendezvous {

/// The time for which a job that is over is kept for nodes that do not leave. It is long, because the daemon
/// is not told the grace period of their workers.
inline constexpr Milliseconds kJobEndsWithin = std::chrono::minutes(10) + kDaemonAtMost;

/// The options that all jobs of a daemon share.
struct HostingOptions {
  /// The address on which the daemon listens; the jobs' stores listen there on ports of their own.
  SocketAddress address{};
  /// The version of the daemon's muster, for texts.
  std::string version{};
  /// Admission at the ports of the stores, the same as at the daemon's port.
  std::vector<Cidr> allow_from{};
  bool same_user_only = true;
  std::shared_ptr<Gates> gates{};
  /// The time from the end of a job until its nodes that have not left are cut off.
  Milliseconds ends_within = kJobEndsWithin;
  /// The reason why no job is hosted; empty: jobs are hosted.
  std::string refusal{};
};

/// One run of a job: its coordinator, and the port of its stores. Used on the executor's thread only.
class HostedJob {
 public:
  /// `first`: the hello that states the job's limits. `changed`: as in CoordinatorService::host_as().
  HostedJob(boost::asio::any_io_executor executor, const HostingOptions& options, const Hello& first,
            std::function<void()> changed);
  HostedJob(const HostedJob&) = delete;
  HostedJob& operator=(const HostedJob&) = delete;

  CoordinatorService& service() { return service_; }

  bool over() const { return service_.job_over(); }

  bool deserted() const { return service_.deserted(); }

  KnownJob known(const Hello& hello) const;
  JobStatus status() const;

  /// The time when the job is to be forgotten; none: not known yet. A verdict is kept for late nodes, and
  /// while nodes leave, but not for ever. Closes the port of a deserted job's store.
  std::optional<TimePoint> forgotten_at(TimePoint now);

  /// The order in which jobs that are over make room: deserted jobs first, then those that ended first.
  bool makes_room_before(const HostedJob& other) const;

 private:
  void open_port();
  OpenedStore open_store();

  boost::asio::any_io_executor executor_;
  const HostingOptions& options_;
  std::string title_;
  JobLimits limits_;
  std::string stated_by_;
  TimePoint began_ = std::chrono::steady_clock::now();
  std::optional<TimePoint> over_since_;
  std::optional<TimePoint> deserted_since_;
  CoordinatorService service_;
  /// The port of the stores, opened for the first round.
  std::optional<ControlPort> port_;
};

/// The jobs by their names. For each name there is one run: the one that runs, or for kDaemonLingers the one
/// that ended last. A job is made by its first hello. The daemon's port also serves a store to clients
/// without a key, `own_store`, and vouches for every client that the port's rule lets in. Used on the
/// executor's thread only, except where a method says otherwise.
class JobDirectory final : public PortService {
 public:
  JobDirectory(boost::asio::any_io_executor executor, HostingOptions options, OpenedStore own_store,
               std::function<int()> store_clients);

  ~JobDirectory() { stop(); }

  JobDirectory(const JobDirectory&) = delete;
  JobDirectory& operator=(const JobDirectory&) = delete;

  void add(std::unique_ptr<ByteStream> stream, PeerPlace place) override {
    newcomers_.add(std::move(stream), std::move(place));
  }

  const OpenedStore* running_store() const override { return &own_store_; }

  void vouch(const SocketAddress&, const SocketAddress&, bool, Vouching::Done done) override {
    done(true, "");
  }

  bool knows(const SocketAddress&) const override { return true; }

  bool could_vouch(const SocketAddress&) const override { return true; }

  bool has_running_store() const override { return true; }

  std::vector<JobStatus> status() const;

  /// Ends all jobs, whose nodes are told `reason`; no new job is taken.
  void end(const std::string& reason);

  /// Whether no job has a session.
  bool deserted() const;

  /// Ends all sessions and closes all stores, the daemon's own included. Idempotent.
  void stop();

 private:
  /// `waits_until`: the time when a hello that must wait has waited long enough; none: it has not waited yet.
  void on_hello(const std::shared_ptr<Newcomer>& newcomer, const Hello& hello,
                std::optional<TimePoint> waits_until);
  void look_again(const std::shared_ptr<Newcomer>& newcomer, const Hello& hello, TimePoint until);
  void create(const Hello& hello);
  void answer_observer(Connection& connection) const;
  void make_room();
  void sweep_later();
  void sweep();

  boost::asio::any_io_executor executor_;
  HostingOptions options_;
  OpenedStore own_store_;
  std::function<int()> store_clients_;
  TimePoint began_ = std::chrono::steady_clock::now();
  std::map<std::string, std::shared_ptr<HostedJob>> jobs_;
  Newcomers newcomers_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace muster::rendezvous
