// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/daemon/job_directory.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/client/control_message.hpp"
#include "rendezvous/core/membership.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/listen_socket.hpp"
#include "rendezvous/server/store/opened_store.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace muster::rendezvous {
namespace {

/// The interval of checks whether the nodes of a job are back, or are judged to be lost.
constexpr Milliseconds kLookInterval{100};

std::uint64_t seconds_since(TimePoint time) {
  const auto passed = std::chrono::duration_cast<std::chrono::seconds>(steady_now() - time);
  return static_cast<std::uint64_t>(passed.count());
}

Role role_of(const PeerIdentity& identity) {
  switch (identity.role) {
    case PeerIdentity::Role::launcher:
      return Role::launcher;
    case PeerIdentity::Role::observer:
      return Role::observer;
    case PeerIdentity::Role::agent:
      break;
  }
  return Role::node;
}

/// The reason to refuse a hello whatever the state of its job; empty: there is none. Asked before a job is
/// made or makes room; the job's coordinator checks everything else.
std::string contradiction(const PeerPlace& place, const Hello& hello) {
  if (!place.identity) return "a daemon takes connections over its port only";
  const bool same_node = hello.role == Role::launcher || place.identity->node == hello.node;
  if (place.identity->job == hello.run_id && role_of(*place.identity) == hello.role && same_node) return "";
  return "the key is that of " + place.identity->text() + ", but the hello is of " + title_of(hello) +
         " of job '" + hello.run_id + "'; start each node with its own key";
}

}  // namespace

HostedJob::HostedJob(boost::asio::any_io_executor executor, const HostingOptions& options, const Hello& first,
                     std::function<void()> changed)
    : executor_(executor),
      options_(options),
      title_("job '" + first.run_id + "': "),
      limits_(*first.limits),
      stated_by_(title_of(first)),
      service_(
          executor,
          {.run_id = first.run_id,
           .nonce = random_nonce(),
           .software = options.version,
           .limits = *first.limits},
          [this](RoundNumber) {
            if (!port_ && !limits_.store_proxy) open_port();
            return open_store();
          },
          nullptr) {
  service_.host_as(title_, std::move(changed));
}

void HostedJob::open_port() {
  ListenSocket listener = open_listen_socket(options_.address.host(), 0, true, false);
  ControlPortOptions port;
  port.allow_from = options_.allow_from;
  port.same_user_only = options_.same_user_only;
  port.gates = options_.gates;
  port.no_control = title_ + "the port of its store; nodes connect to " + options_.address.text();
  port_.emplace(executor_, std::move(listener.fd), std::nullopt, std::move(port), service_);
}

/// Opens the store of a round. The port stays the same from round to round, and the store behind it is a new
/// one.
OpenedStore HostedJob::open_store() {
  if (limits_.store_proxy) return open_fed_store(options_.address, hosted_store_bytes());
  return open_shared_store(executor_, hosted_store(port_->address()));
}

KnownJob HostedJob::known(const Hello& hello) const {
  const Coordinator& coordinator = service_.coordinator();
  KnownJob job;
  job.limits = limits_;
  job.stated_by = stated_by_;
  job.over = over();
  job.is_ghost = coordinator.nodes() > 0 && coordinator.connected_nodes() == 0;
  job.has_peer = coordinator.resumes(hello).has_value();
  return job;
}

JobStatus HostedJob::status() const {
  JobStatus status = service_.coordinator().status(steady_now());
  status.uptime_s = seconds_since(began_);
  return status;
}

std::optional<TimePoint> HostedJob::forgotten_at(TimePoint now) {
  if (over() && !over_since_) over_since_ = now;
  if (!deserted()) return over_since_ ? std::optional(*over_since_ + options_.ends_within) : std::nullopt;
  port_.reset();
  if (!deserted_since_) deserted_since_ = now;
  return *deserted_since_ + (over() ? kDaemonLingers : std::chrono::seconds(0));
}

bool HostedJob::makes_room_before(const HostedJob& other) const {
  if (deserted() != other.deserted()) return deserted();
  return over_since_.value_or(TimePoint::max()) < other.over_since_.value_or(TimePoint::max());
}

JobDirectory::JobDirectory(boost::asio::any_io_executor executor, HostingOptions options,
                           OpenedStore own_store, std::function<int()> store_clients)
    : executor_(executor),
      options_(std::move(options)),
      own_store_(std::move(own_store)),
      store_clients_(std::move(store_clients)),
      newcomers_(executor,
                 [this](const std::shared_ptr<Newcomer>& newcomer, const Message* message) {
                   if (message == nullptr) return;
                   if (const auto* hello = std::get_if<Hello>(message))
                     return on_hello(newcomer, *hello, std::nullopt);
                   newcomer->refuse({Errc::mend, "hello", "the first control message must be hello"});
                 }),
      timer_(executor) {}

void JobDirectory::on_hello(const std::shared_ptr<Newcomer>& newcomer, const Hello& hello,
                            std::optional<TimePoint> waits_until) {
  const std::string why = contradiction(newcomer->place(), hello);
  if (!why.empty()) return newcomer->refuse({Errc::mend, "hello", why});
  const std::string version = other_version(hello, "this daemon", options_.version);
  if (!version.empty()) return newcomer->refuse({Errc::upgrade, "hello", version});
  // A job that was deserted earlier in this turn of the event loop has no say any more.
  sweep();
  const auto found = jobs_.find(hello.run_id);
  const auto known = found == jobs_.end() ? std::nullopt : std::optional(found->second->known(hello));
  const auto lives = [&hello](const auto& entry) {
    return entry.first != hello.run_id && !entry.second->over();
  };
  const auto living = static_cast<std::size_t>(std::count_if(jobs_.begin(), jobs_.end(), lives));
  JobChoice choice = choose_job(hello, known ? &*known : nullptr, living);
  if (choice.kind == JobChoice::Kind::create && !options_.refusal.empty())
    choice = {JobChoice::Kind::refuse, Errc::mend, options_.refusal};
  const bool from_ghost = choice.kind == JobChoice::Kind::create && known && !known->over;
  const TimePoint now = steady_now();
  if (from_ghost && now < waits_until.value_or(TimePoint::max()))
    return look_again(newcomer, hello, waits_until.value_or(now + kDeadAfter));
  switch (choice.kind) {
    case JobChoice::Kind::observe:
      return answer_observer(*newcomer->connection());
    case JobChoice::Kind::refuse:
      return newcomer->refuse({choice.code, "hello", choice.text});
    case JobChoice::Kind::create:
      create(hello);
      break;
    case JobChoice::Kind::join:
      break;
  }
  HostedJob& job = *jobs_.at(hello.run_id);
  job.service().take(newcomer, hello);
  // A node that the job's coordinator refuses leaves no session whose end would be told.
  if (job.deserted()) sweep_later();
}

/// Answers a hello later, when the job's present nodes have come back or been judged: live nodes whose
/// connections were all reset are back by `until`. Over the network a node sends nothing more before its
/// hello is answered.
void JobDirectory::look_again(const std::shared_ptr<Newcomer>& newcomer, const Hello& hello,
                              TimePoint until) {
  newcomers_.hold(newcomer);
  const auto timer = std::make_shared<boost::asio::steady_timer>(executor_, kLookInterval);
  timer->async_wait(
      [this, alive = std::weak_ptr(alive_), timer, newcomer, hello, until](boost::system::error_code error) {
        if (error || alive.expired()) return;
        newcomers_.forget(newcomer);
        // A node that has gone meanwhile, or was dropped for others with its key, neither makes nor ends a
        // job.
        if (!newcomer->connection()->closed()) on_hello(newcomer, hello, until);
      });
}

void JobDirectory::create(const Hello& hello) {
  const auto changed = [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) sweep_later();
  };
  // The store of the run before is closed before the new run can open one.
  if (const auto before = jobs_.find(hello.run_id); before != jobs_.end()) {
    log_info("job '" + hello.run_id + "' begins anew");
    before->second->service().stop();
    jobs_.erase(before);
  }
  make_room();
  jobs_.emplace(hello.run_id, std::make_shared<HostedJob>(executor_, options_, hello, changed));
}

/// Drops a job that is over when there are too many: short jobs whose verdicts nobody asks for must not pile
/// up.
void JobDirectory::make_room() {
  if (jobs_.size() < 2 * kMaxHostedJobs) return;
  auto found = jobs_.end();
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    if (!job->second->over()) continue;
    if (found == jobs_.end() || job->second->makes_room_before(*found->second)) found = job;
  }
  if (found != jobs_.end()) jobs_.erase(found);
}

std::vector<JobStatus> JobDirectory::status() const {
  std::vector<JobStatus> jobs;
  jobs.reserve(jobs_.size());
  for (const auto& [run_id, job] : jobs_) jobs.push_back(job->status());
  return jobs;
}

void JobDirectory::answer_observer(Connection& connection) const {
  const std::vector<JobStatus> jobs = status();
  send_message(connection, DaemonStatus{options_.version, seconds_since(began_),
                                        static_cast<int>(jobs.size()), store_clients_()});
  for (const JobStatus& job : jobs) send_message(connection, job);
  connection.finish();
}

/// Sweeps in a later turn of the event loop, because a job must not be destroyed from within itself.
void JobDirectory::sweep_later() {
  boost::asio::post(executor_, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) sweep();
  });
}

/// Forgets the jobs that have no members any more, or that were over long ago.
void JobDirectory::sweep() {
  const TimePoint now = steady_now();
  TimePoint next = TimePoint::max();
  std::erase_if(jobs_, [now, &next](const auto& entry) {
    const std::optional<TimePoint> until = entry.second->forgotten_at(now);
    if (!until) return false;
    if (*until > now) next = std::min(next, *until);
    return *until <= now;
  });
  if (next == TimePoint::max()) return;
  timer_.expires_at(next);
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](boost::system::error_code error) {
    if (!error && !alive.expired()) sweep();
  });
}

void JobDirectory::end(const std::string& reason) {
  options_.refusal = reason;
  for (const auto& [run_id, job] : jobs_) job->service().end_job(reason);
}

bool JobDirectory::deserted() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& entry) { return entry.second->deserted(); });
}

void JobDirectory::stop() {
  timer_.cancel();
  newcomers_.close();
  for (const auto& [run_id, job] : jobs_) job->service().stop();
  jobs_.clear();
  if (own_store_.close) own_store_.close();
}

}  // namespace muster::rendezvous
