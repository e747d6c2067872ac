// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/daemon/coordinator_service.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/wire/channel.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace muster::rendezvous {
namespace {

/// The most agents that are asked because they stated an address: many hosts may have the same address on a
/// bridge of their own.
constexpr std::size_t kMaxAsked = 16;

/// The most waits for keys that are told at a time: of a job in which all ranks wait for the same, some do.
constexpr std::size_t kMaxWaitsTold = 256;

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

bool refuses(const Effects& effects, SessionId session) {
  return std::any_of(effects.begin(), effects.end(), [session](const Effect& one) {
    const auto* send = std::get_if<effect::Send>(&one);
    return send != nullptr && send->session == session && std::holds_alternative<ErrorReply>(send->message);
  });
}

}  // namespace

std::string random_nonce() {
  return Secret::random().hex().substr(0, 32);
}

CoordinatorService::CoordinatorService(boost::asio::any_io_executor executor, CoordinatorOptions options,
                                       StoreOpener opener,
                                       std::function<void(const std::string& reason)> session_ended)
    : executor_(std::move(executor)),
      coordinator_(std::move(options)),
      opener_(std::move(opener)),
      session_ended_(std::move(session_ended)),
      timer_(executor_),
      newcomers_(executor_,
                 [this](const std::shared_ptr<Newcomer>& newcomer, const Message* message) {
                   if (message != nullptr)
                     take(newcomer, *message);
                   else if (!newcomer->place().identity && session_ended_)
                     session_ended_(newcomer->trouble());
                 }),
      vouching_(executor_) {}

CoordinatorService::~CoordinatorService() {
  stop();
}

void CoordinatorService::host_as(std::string title, std::function<void()> changed) {
  title_ = std::move(title);
  changed_ = std::move(changed);
}

void CoordinatorService::end_job(const std::string& reason) {
  if (!stopped_) perform(coordinator_.close(reason, steady_now()));
}

void CoordinatorService::stop() {
  if (stopped_) return;
  stopped_ = true;
  timer_.cancel();
  vouching_.clear();
  newcomers_.close();
  sessions_.clear();
  {
    const std::scoped_lock lock(addresses_mutex_);
    by_address_.clear();
    by_further_address_.clear();
  }
  further_addresses_.clear();
  for (auto& [round, store] : stores_) store.close();
  stores_.clear();
  store_runs_ = false;
}

void CoordinatorService::take(const std::shared_ptr<Newcomer>& newcomer, const Message& message) {
  if (stopped_) return;
  const auto* hello = std::get_if<Hello>(&message);
  const PeerPlace& place = newcomer->place();
  if (hello != nullptr && !fits(*newcomer, *hello)) return;
  const auto resumed = hello != nullptr ? coordinator_.resumes(*hello) : std::nullopt;
  const auto found = resumed ? sessions_.find(*resumed) : sessions_.end();
  if (found != sessions_.end() && !found->second->is_local()) {
    note_address(*resumed, found->second->place().address, place.address);
    found->second->arrive(newcomer->connection(), place, hello->received);
    perform(coordinator_.on_resume(*resumed, place.address.text(), steady_now()));
    return;
  }
  SessionId id = 0;
  make_session(place, id).arrive(newcomer->connection(), place, 0);
  if (place.identity)
    coordinator_.on_connect(id, place.address.text());
  else
    coordinator_.on_own_host(id);
  on_message(id, message);
}

/// Whether the hello says the same about the peer as its key, which proves who the peer is.
bool CoordinatorService::fits(Newcomer& newcomer, const Hello& hello) const {
  const std::optional<PeerIdentity>& identity = newcomer.place().identity;
  if (!identity) return true;
  const Role role = identity->role == PeerIdentity::Role::launcher ? Role::launcher : Role::node;
  if (role == hello.role && (role == Role::launcher || identity->node == hello.node)) return true;
  newcomer.refuse(
      {Errc::mend, "hello",
       "the key is that of " + (role == Role::launcher ? "the launcher" : "node " + identity->node) +
           ", but the hello is of " + (hello.role == Role::launcher ? "a launcher" : "node " + hello.node) +
           "; start each node with its own key"});
  return false;
}

ControlSession& CoordinatorService::make_session(const PeerPlace& place, SessionId& id) {
  id = next_session_++;
  ControlSession::Handlers handlers;
  handlers.message = [this](SessionId session, const Message& message) { on_message(session, message); };
  handlers.heard = [this](SessionId session) { on_heard(session); };
  handlers.channel_opened = [this](SessionId session, const ChannelOpen& open,
                                   std::shared_ptr<Channel> channel) {
    on_channel(session, open, std::move(channel));
  };
  handlers.ended = [this](SessionId session, const ConnectionEnd& end) { on_ended(session, end); };
  note_address(id, {}, place.address);
  if (place.identity && place.identity->role == PeerIdentity::Role::agent) ++remote_nodes_;
  auto session = std::make_shared<ControlSession>(id, executor_, place, std::move(handlers));
  return *sessions_.emplace(id, std::move(session)).first->second;
}

void CoordinatorService::on_message(SessionId session, const Message& message) {
  if (const auto* vouched = std::get_if<Vouched>(&message)) vouching_.answered(session, *vouched);
  Effects effects = coordinator_.on_message(session, message, steady_now());
  const auto* join = std::get_if<Join>(&message);
  if (join != nullptr && !refuses(effects, session)) note_further_addresses(session, *join);
  perform(std::move(effects));
}

/// Tells the coordinator of a frame that is not for it but shows that the peer lives.
void CoordinatorService::on_heard(SessionId session) {
  perform(coordinator_.on_heard(session, steady_now()));
}

void CoordinatorService::on_channel(SessionId session, const ChannelOpen& open,
                                    std::shared_ptr<Channel> channel) {
  const std::string refusal = refuse_channel(session, open, channel);
  if (!refusal.empty()) channel->close(refusal);
}

/// Connects a channel to its other end, or returns why not; empty on success.
std::string CoordinatorService::refuse_channel(SessionId session, const ChannelOpen& open,
                                               const std::shared_ptr<Channel>& channel) {
  if (open.kind == ChannelKind::store) {
    if (!coordinator_.in_running_round(session) || stores_.empty()) return "no round is running";
    const OpenedStore& store = stores_.rbegin()->second;
    if (!store.feed) return "the store of this job is reached over the network";
    store.feed(channel, {session, open.worker_port, open.proxy_port});
    return "";
  }
  if (coordinator_.launcher_session() != session) return "only the launcher opens links";
  const std::optional<SessionId> target = coordinator_.session_of(open.node);
  const auto found = target ? sessions_.find(*target) : sessions_.end();
  if (found == sessions_.end()) return "node " + open.node + " is not connected";
  relay(channel, found->second->open_channel(ChannelKind::link));
  return "";
}

void CoordinatorService::on_ended(SessionId session, const ConnectionEnd& end) {
  // A socket pair ends with a reset when data lies unread in it, and no peer can come back over it.
  const bool may_come_back = end.code == Errc::lost && end.broken && !sessions_.at(session)->is_local();
  if (may_come_back) {
    perform(coordinator_.on_disconnect(session, end.reason, steady_now(), Ending::broken));
    // If the coordinator does not judge silence, nothing else would end the session.
    if (coordinator_.member(session) != nullptr) return;
  } else {
    perform(coordinator_.on_disconnect(session, end.reason, steady_now(), Ending::closed));
  }
  retire(session);
  if (session_ended_) session_ended_(end.reason);
}

const OpenedStore* CoordinatorService::running_store() const {
  if (stores_.empty() || !stores_.rbegin()->second.adopt) return nullptr;
  return &stores_.rbegin()->second;
}

void CoordinatorService::note_address(SessionId id, const SocketAddress& before, const SocketAddress& now) {
  const std::scoped_lock lock(addresses_mutex_);
  forget_address(by_address_, id, std::string(before.bytes()));
  by_address_[std::string(now.bytes())].insert(id);
}

/// Notes further addresses of a host with several networks, whose workers may come from another address than
/// its agent. A loopback address is left out, because every host has it.
void CoordinatorService::note_further_addresses(SessionId id, const Join& join) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->is_local()) return;
  forget_further_addresses(id);
  for (const std::string& text : join.addresses) {
    const std::optional<Cidr> address = Cidr::parse(text);
    if (!address || text.find('/') != std::string::npos) continue;
    const SocketAddress numeric = resolve(text, 0).front();
    if (numeric.is_loopback()) continue;
    const std::scoped_lock lock(addresses_mutex_);
    by_further_address_[std::string(numeric.bytes())].insert(id);
    further_addresses_[id].emplace(numeric.bytes());
  }
}

void CoordinatorService::forget_address(Places& places, SessionId id, const std::string& address) {
  const auto found = places.find(address);
  if (found != places.end() && found->second.erase(id) > 0 && found->second.empty()) places.erase(found);
}

void CoordinatorService::forget_further_addresses(SessionId id) {
  const auto found = further_addresses_.find(id);
  if (found == further_addresses_.end()) return;
  const std::scoped_lock lock(addresses_mutex_);
  for (const std::string& address : found->second) forget_address(by_further_address_, id, address);
  further_addresses_.erase(found);
}

void CoordinatorService::find_running(const Places& places, const std::string& address, std::size_t most,
                                      std::vector<SessionId>& found) const {
  const auto place = places.find(address);
  if (place == places.end()) return;
  for (const SessionId id : place->second)
    if (found.size() < most && coordinator_.in_running_round(id)) found.push_back(id);
}

void CoordinatorService::vouch(const SocketAddress& peer, const SocketAddress& local, bool here,
                               Vouching::Done done) {
  if (stopped_) return;
  const std::string address(peer.bytes());
  std::vector<SessionId> asked;
  find_running(by_address_, address, kNoLimit, asked);
  if (here) find_running(by_address_, "", kNoLimit, asked);
  // An address that an agent only claims to have counts only if no agent has connected from it.
  if (asked.empty()) find_running(by_further_address_, address, kMaxAsked, asked);
  if (asked.empty())
    return done(false, "no agent of this job whose workers run is connected from " + peer.host());
  Vouch question;
  question.id = vouching_.ask(asked, std::move(done));
  question.peer_host = peer.host();
  question.peer_port = peer.port();
  question.local_host = local.host();
  question.local_port = local.port();
  for (const SessionId id : asked) sessions_.at(id)->send(question);
}

/// Ends a session. It is destroyed one turn later, because it may be ending inside one of its own handlers.
void CoordinatorService::retire(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  found->second->finish();
  const PeerPlace& place = found->second->place();
  if (place.identity && place.identity->role == PeerIdentity::Role::agent) --remote_nodes_;
  {
    const std::scoped_lock lock(addresses_mutex_);
    forget_address(by_address_, session, std::string(place.address.bytes()));
  }
  forget_further_addresses(session);
  vouching_.gone(session);
  boost::asio::post(executor_, [kept = std::move(found->second)] {});
  sessions_.erase(found);
  if (changed_) changed_();
}

void CoordinatorService::enqueue(Effects effects) {
  for (Effect& effect : effects) pending_.push_back(std::move(effect));
}

/// Performs effects in the order in which they were decided, including effects that follow from one of them.
void CoordinatorService::perform(Effects effects) {
  enqueue(std::move(effects));
  if (performing_) return;
  performing_ = true;
  while (!pending_.empty() && !stopped_) {
    const Effect effect = std::move(pending_.front());
    pending_.pop_front();
    std::visit([this](const auto& one) { perform_one(one); }, effect);
  }
  performing_ = false;
}

void CoordinatorService::perform_one(const effect::Send& send) {
  const auto found = sessions_.find(send.session);
  if (found != sessions_.end()) found->second->send(send.message);
}

void CoordinatorService::perform_one(const effect::Disconnect& disconnect) {
  retire(disconnect.session);
}

void CoordinatorService::perform_one(const effect::OpenStore& open) {
  try {
    OpenedStore store = opener_(open.round);
    const Endpoint endpoint = store.endpoint;
    stores_.insert_or_assign(open.round, std::move(store));
    store_runs_ = running_store() != nullptr;
    enqueue(coordinator_.on_store_opened(open.round, endpoint, steady_now()));
  } catch (const std::exception& error) {
    enqueue(coordinator_.on_store_failed(open.round, error.what(), steady_now()));
  }
}

void CoordinatorService::perform_one(const effect::CloseStore& close) {
  const auto found = stores_.find(close.round);
  if (found == stores_.end()) return;
  found->second.close();
  stores_.erase(found);
  store_runs_ = running_store() != nullptr;
}

void CoordinatorService::perform_one(const effect::AskStore& ask) {
  const auto found = stores_.find(ask.round);
  if (found == stores_.end() || !found->second.waits) return;
  for (const StoreWait& wait : found->second.waits(kMaxWaitsTold)) tell_wait(ask.round, wait);
}

/// Tells a wait to the node through which the client comes, or to those from whose hosts the connection may
/// come, as vouch() asks them; which of their ranks it is, if any, only they know.
void CoordinatorService::tell_wait(RoundNumber round, const StoreWait& wait) {
  if (wait.peer.port() == 0 || wait.local.port() == 0) return;
  const std::string address(wait.peer.bytes());
  std::vector<SessionId> told;
  if (wait.node) {
    if (sessions_.count(*wait.node) > 0) told.push_back(*wait.node);
  } else {
    find_running(by_address_, address, kMaxAsked, told);
    // This host's own agent is not connected from an address.
    find_running(by_address_, "", kMaxAsked, told);
    if (told.empty()) find_running(by_further_address_, address, kMaxAsked, told);
  }
  KeyWait message;
  message.round = round;
  message.peer_host = wait.peer.host();
  message.peer_port = wait.peer.port();
  message.local_host = wait.local.host();
  message.local_port = wait.local.port();
  message.key = wait.key;
  message.nearest = wait.nearest;
  for (const SessionId id : told) sessions_.at(id)->send(message);
}

void CoordinatorService::perform_one(const effect::SetTimer& timer) {
  timer_.expires_at(timer.at);
  // The timer's expiry may be queued when the service is destroyed, so the handler checks more than the
  // error.
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](boost::system::error_code error) {
    if (!error && !alive.expired() && !stopped_) perform(coordinator_.on_timer(steady_now()));
  });
}

void CoordinatorService::perform_one(const effect::Note& note) {
  if (note.warning)
    log_warning(title_ + note.text);
  else
    log_info(title_ + note.text);
}

void CoordinatorService::perform_one(const effect::EndJob& end) {
  job_over_ = true;
  log_info(title_ + "the job is over: " + end.reason);
  if (changed_) changed_();
}

}  // namespace muster::rendezvous
