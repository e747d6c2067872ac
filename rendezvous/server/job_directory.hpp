// SPDX-License-Identifier: Apache-2.0
// The jobs of a daemon. Includes Asio.
#pragma once

#include "rendezvous/core/job_choice.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/control_port.hpp"
#include "rendezvous/server/coordinator_service.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::rendezvous {

/// How long a job that is over is kept for nodes that do not leave: the daemon is not told the grace period
/// of their workers.
inline constexpr Milliseconds kJobEndsWithin = std::chrono::minutes(10) + kDaemonAtMost;

/// What the jobs of a daemon have in common.
struct HostingOptions {
  /// Where the daemon listens: the jobs' stores listen on ports of their own there.
  SocketAddress address{};
  /// Its muster, for texts.
  std::string version{};
  /// For the ports of the stores, as for the daemon's.
  std::vector<Cidr> allow_from{};
  bool same_user_only = true;
  std::shared_ptr<Gates> gates{};
  /// From the end of a job until those of its nodes that have not left are cut off.
  Milliseconds ends_within = kJobEndsWithin;
  /// Not empty: no job is hosted, for this reason.
  std::string refusal{};
};

/// One run of a job: its coordinator, and the port of its stores. One thread, the executor's.
class HostedJob {
 public:
  /// `first`: the hello that states its limits. `changed`: as in CoordinatorService::host_as().
  HostedJob(boost::asio::any_io_executor executor, const HostingOptions& options, const Hello& first,
            std::function<void()> changed);
  HostedJob(const HostedJob&) = delete;
  HostedJob& operator=(const HostedJob&) = delete;

  CoordinatorService& service() { return service_; }

  bool over() const { return service_.job_over(); }

  bool deserted() const { return service_.deserted(); }

  KnownJob known(const Hello& hello) const;
  JobStatus status() const;

  /// When it is to be forgotten; none: that is not known yet. A verdict stays for late nodes to hear, and
  /// while nodes take their leave, but not for ever. The port of a deserted job's store is closed.
  std::optional<TimePoint> forgotten_at(TimePoint now);

  /// Deserted ones come first, then those that were over first: in which order jobs that are over make room.
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
  /// Opened for the first round.
  std::optional<ControlPort> port_;
};

/// The jobs by their names, of each name one run: that which runs, or for kDaemonLingers the one that ended
/// last. A job is made by its first hello. The daemon's port also serves a store to clients without a key,
/// `own_store`; whom the port's rule lets in, it vouches for. One thread, the executor's, but for what says
/// otherwise.
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

  /// Ends all jobs, whose nodes are told `reason`; no other one is taken.
  void end(const std::string& reason);

  /// Nobody has a session.
  bool deserted() const;

  /// Ends all sessions and closes all stores, its own too. Idempotent.
  void stop();

 private:
  /// `waits_until`: when a hello that must wait has waited long enough; none: it has not waited yet.
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
