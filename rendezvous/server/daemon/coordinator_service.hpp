// SPDX-License-Identifier: Apache-2.0
// Performs the coordinator's effects: sessions, timer, stores, channels. Includes Asio.
#pragma once

#include "rendezvous/core/coordinator.hpp"
#include "rendezvous/server/listen/control_session.hpp"
#include "rendezvous/server/listen/port_service.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace muster::rendezvous {

/// Opens an empty store, or throws an exception whose text goes to the nodes as it is.
using StoreOpener = std::function<OpenedStore(RoundNumber)>;

/// A random text for CoordinatorOptions::nonce.
std::string random_nonce();

/// Runs the coordinator of one job and carries out its effects. Used on the executor's thread only, except
/// where a method says otherwise. The agents of the hosts vouch for the store's clients that come from there.
class CoordinatorService final : public PortService {
 public:
  /// `session_ended` is told of each session that the peer or an error has ended. May be empty.
  CoordinatorService(boost::asio::any_io_executor executor, CoordinatorOptions options, StoreOpener opener,
                     std::function<void(const std::string& reason)> session_ended);
  ~CoordinatorService();
  CoordinatorService(const CoordinatorService&) = delete;
  CoordinatorService& operator=(const CoordinatorService&) = delete;

  /// Tells that this is one of several jobs of a process: log lines begin with `title`, and `changed` is
  /// called, from within this object, when a session has ended or the job is over.
  void host_as(std::string title, std::function<void()> changed);

  void add(std::unique_ptr<ByteStream> stream, PeerPlace place) override {
    newcomers_.add(std::move(stream), std::move(place));
  }

  void add(std::unique_ptr<ByteStream> stream) { add(std::move(stream), {}); }

  /// Serves a connection whose first message, `message`, has come.
  void take(const std::shared_ptr<Newcomer>& newcomer, const Message& message);

  const OpenedStore* running_store() const override;

  void vouch(const SocketAddress& peer, const SocketAddress& local, bool here, Vouching::Done done) override;

  bool knows(const SocketAddress& peer) const override {
    const std::scoped_lock lock(addresses_mutex_);
    return by_address_.count(std::string(peer.bytes())) > 0;
  }

  bool could_vouch(const SocketAddress& peer) const override {
    const std::string address(peer.bytes());
    const std::scoped_lock lock(addresses_mutex_);
    return by_address_.count(address) > 0 || by_further_address_.count(address) > 0;
  }

  bool has_running_store() const override { return store_runs_; }

  /// The number of sessions of nodes over the network, broken ones included.
  std::size_t remote_nodes() const { return remote_nodes_; }

  /// Whether this host's own agent has its connection.
  bool has_local() const { return newcomers_.local() > 0 || by_address_.count("") > 0; }

  bool job_over() const { return job_over_; }

  /// The coordinator, for questions about the job. Its answers are valid until the next event.
  const Coordinator& coordinator() const { return coordinator_; }

  /// Whether nobody has a session, not even a broken one.
  bool deserted() const { return sessions_.empty(); }

  /// Ends the job, whatever its state: everybody is told `reason` and that the job has failed.
  void end_job(const std::string& reason);

  /// Ends all sessions and closes the store. Idempotent.
  void stop();

 private:
  bool fits(Newcomer& newcomer, const Hello& hello) const;
  ControlSession& make_session(const PeerPlace& place, SessionId& id);
  void on_message(SessionId session, const Message& message);
  void on_heard(SessionId session);
  void on_channel(SessionId session, const ChannelOpen& open, std::shared_ptr<Channel> channel);
  std::string refuse_channel(SessionId session, const ChannelOpen& open,
                             const std::shared_ptr<Channel>& channel);
  void on_ended(SessionId session, const ConnectionEnd& end);
  void perform(Effects effects);
  void perform_one(const effect::Send& send);
  void perform_one(const effect::Disconnect& disconnect);
  void perform_one(const effect::OpenStore& open);
  void perform_one(const effect::CloseStore& close);
  void perform_one(const effect::AskStore& ask);
  void perform_one(const effect::SetTimer& timer);
  void perform_one(const effect::Note& note);
  void perform_one(const effect::EndJob& end);
  void retire(SessionId session);
  void note_address(SessionId id, const SocketAddress& before, const SocketAddress& now);
  void note_further_addresses(SessionId id, const Join& join);
  using Places = std::unordered_map<std::string, std::set<SessionId>>;
  void tell_wait(RoundNumber round, const StoreWait& wait);
  static void forget_address(Places& places, SessionId id, const std::string& address);
  void forget_further_addresses(SessionId id);
  void find_running(const Places& places, const std::string& address, std::size_t most,
                    std::vector<SessionId>& found) const;
  void enqueue(Effects effects);

  boost::asio::any_io_executor executor_;
  Coordinator coordinator_;
  StoreOpener opener_;
  std::function<void(const std::string&)> session_ended_;
  boost::asio::steady_timer timer_;
  std::string title_;
  std::function<void()> changed_;
  Newcomers newcomers_;
  std::size_t remote_nodes_ = 0;
  std::map<SessionId, std::shared_ptr<ControlSession>> sessions_;
  /// The sessions by the addresses that their connections come from; local sessions are under the empty text.
  /// Changed only under the mutex.
  Places by_address_;
  mutable std::mutex addresses_mutex_;
  /// The sessions by the further addresses that each node stated when it joined last. Changed only under the
  /// mutex.
  Places by_further_address_;
  std::unordered_map<SessionId, std::set<std::string>> further_addresses_;
  std::map<RoundNumber, OpenedStore> stores_;
  std::atomic<bool> store_runs_ = false;
  Vouching vouching_;
  std::deque<Effect> pending_;
  SessionId next_session_ = 1;
  bool performing_ = false;
  bool job_over_ = false;
  bool stopped_ = false;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace muster::rendezvous
