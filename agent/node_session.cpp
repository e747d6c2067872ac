// SPDX-License-Identifier: Apache-2.0
#include "agent/node_session.hpp"

#include "agent/core/exit_status.hpp"
#include "agent/core/link_text.hpp"
#include "agent/core/stop_notice.hpp"
#include "agent/process/log_directory.hpp"
#include "agent/process/signal_state.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/net/interface_choice.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <signal.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;
using asio::awaitable;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kLeaveDeadline{10};
/// The verdict of a stopped job, from a coordinator whose other nodes have this long to end, too.
constexpr std::chrono::seconds kVerdictAfterStop{10};

/// The only node of a job has the name of its host, and the address of its store.
AgentSpec& with_name_and_address(AgentSpec& spec) {
  if (!std::holds_alternative<AloneNode>(spec.node.form)) return spec;
  spec.node.name = spec.host;
  spec.node.local_addr = spec.store.host;
  return spec;
}

}  // namespace

NodeSession::NodeSession(const asio::any_io_executor& executor, const NodeAgentOptions& options)
    : executor_(executor),
      options_(options),
      spec_(with_name_and_address(options_.node.spec)),
      traits_(spec_),
      verdict_(spec_.node.name, spec_.host),
      link_(executor, options_, link_events()),
      output_(executor, spec_, [this] { return link_.works() && life_.goes_on(); }),
      guardian_(executor, options.guardian_pidfd, traits_.of_node),
      end_signals_(executor),
      notices_(executor,
               [this](int signal) {
                 if (runner_) return void(runner_->worker_signals().pass_notice_on(signal));
                 log_warning("no worker runs on " + spec_.host + "; nobody got " + signal_name(signal));
               }),
      dial_(executor, options_, [this] { return life_.before_round(); }),
      news_(executor, traits_, link_, dial_),
      health_(
          executor, spec_, news_,
          {[this] { return runner_ ? &*runner_ : nullptr; },
           [this](const rendezvous::HostNews& news) { coordinator_ ? coordinator_->tell(news) : void(); }}),
      coordinator_known_(executor),
      round_over_(executor),
      verdict_came_(executor) {}

awaitable<void> NodeSession::run() {
  for (const int signal : stop_signals_of_agent(options_.node.signals)) end_signals_.add(signal);
  watch_signals();
  guardian_.start([this] {
    fail("the guardian process of " + spec_.host + " was killed");
    link_.guardian_ended();
  });
  link_.open();
  if (traits_.distant_launcher)
    output_.go_over_link([this](std::string_view what) { return link_.open_channel(what); });
  const NodeReport report = co_await run_job();
  const bool taken = co_await link_.send_report(report);
  life_.end();
  link_.end();
  if (traits_.distant_launcher)
    leave_log_directory(spec_.output,
                        taken && report.outcome == NodeOutcome::succeeded && report.ended_by.node.empty());
  proxy_.reset();
  coordinator_.reset();
  guardian_.cancel();
  guardian_.let_go_on();
  end_signals_.cancel();
  notices_.cancel();
  news_.events().cancel();
  link_.close();
}

awaitable<NodeReport> NodeSession::run_job() {
  NodeReport report;
  report.host = spec_.host;
  if (traits_.networked) report.node = spec_.node.name;
  report.max_restarts = spec_.limits.max_restarts;
  bool again = prepare();
  if (again) again = co_await connect();
  while (again && life_.goes_on()) again = co_await run_round(report) == Next::join;
  life_.report();
  health_.describe(report);
  verdict_.settle(report, life_.goes_on(), runner_ && runner_->outcome() == RoundOutcome::succeeded);
  if (output_.is_open()) {
    co_await output_.finish(life_.killed());
    report.notes = output_.notes();
    if (runner_ && !runner_->memory_note().empty()) report.notes.push_back(runner_->memory_note());
    if (!link_.launcher_is_gone()) co_await output_.send_logs();
  }
  co_return report;
}

/// Returns whether all is well.
bool NodeSession::prepare() {
  set_log_role(traits_.networked ? "agent " + traits_.name : "agent");
  try {
    setup_ = set_up_workers(spec_);
  } catch (const std::exception& error) {
    fail(error.what());
    return false;
  }
  stop_file_.make(new_stop_folder());
  health_.start(setup_.inherited);
  output_.open();
  return true;
}

awaitable<bool> NodeSession::connect() {
  const auto deadline = Clock::now() + spec_.limits.join_timeout;
  if (options_.control_fd < 0 && spec_.node.coordinator_host.empty()) {
    co_await coordinator_known_.wait_for(spec_.limits.join_timeout);
    if (life_.goes_on() && spec_.node.coordinator_host.empty())
      fail("the launcher did not say where the coordinator is; is node 0 reachable?");
    if (!life_.goes_on()) co_return false;
  }
  if (options_.control_fd >= 0) {
    coordinator_.emplace(executor_, options_.control_fd, dial_.client_options(), client_events());
  } else {
    rendezvous::Connector connector = [this](rendezvous::TimePoint limit) { return dial_.connect(limit); };
    dial_.begin();
    coordinator_.emplace(executor_, std::move(connector), deadline, dial_.client_options(), client_events());
  }
  // On this host there is nothing to wait for: join() begins with the hello.
  if (!traits_.networked) co_return life_.goes_on();
  life_.dial();
  try {
    co_await coordinator_->connected(deadline);
    if (spec_.limits.store_proxy) proxy_.emplace(executor_, *coordinator_);
  } catch (const std::exception& error) {
    if (life_.goes_on()) fail(dial_.failure_text(error));
  }
  dial_.end();
  co_return life_.goes_on();
}

/// One round, from joining to leaving; `report` describes it.
awaitable<NodeSession::Next> NodeSession::run_round(NodeReport& report) {
  verdict_.begin_round();
  health_.begin_round();
  const auto place = co_await join();
  if (!place) {
    // Stopped between rounds: what failed in the round before was about to be made good, and is no root
    // cause.
    report.outcome = NodeOutcome::stopped;
    report.workers.clear();
    report.calls.clear();
    co_return Next::end;
  }
  place_ = *place;
  start_workers(*place);
  co_await round_over_.wait();
  guardian_.let_go_on();
  co_await output_.drain(life_.killed());
  if (const std::string text = runner_->unkillable(); !text.empty())
    fail("these processes" + traits_.on_host + " survived SIGKILL (uninterruptible sleep?): " + text);
  runner_->describe_round(report);
  co_await health_.add_flight_records(report);
  co_return co_await leave(report);
}

awaitable<std::optional<rendezvous::RoundResult>> NodeSession::join() {
  rendezvous::Join request;
  request.host = spec_.host;
  request.address = own_address();
  request.workers = spec_.workers;
  request.node_rank = spec_.node.node_rank;
  if (const auto* const peer = std::get_if<PeerNode>(&spec_.node.form)) request.settings = peer->settings;
  // On a host with several networks the workers may reach the store from another one than this connection
  // uses.
  if (traits_.networked) request.addresses = rendezvous::local_addresses();
  request.addresses.resize(std::min(request.addresses.size(), rendezvous::kMaxAddresses));
  // The coordinator keeps the time; ours only guards against a coordinator that does not.
  const auto deadline = Clock::now() + rendezvous::kMaxRestartDelay + spec_.limits.join_timeout +
                        spec_.limits.last_call_timeout + kLeaveDeadline;
  std::optional<rendezvous::RoundResult> place;
  life_.join();
  try {
    place = co_await coordinator_->join(std::move(request), deadline);
  } catch (const std::exception& error) {
    if (life_.goes_on() && !verdict_.is_closed()) fail(error.what());
  }
  dial_.end();
  if (!life_.goes_on()) place.reset();
  co_return place;
}

/// At which the other nodes reach this one: on the coordinator's node, where they reached it.
std::string NodeSession::own_address() const {
  if (!spec_.node.local_addr.empty()) return spec_.node.local_addr;
  return options_.control_fd >= 0 ? spec_.node.coordinator_host : coordinator_->local_address();
}

void NodeSession::start_workers(rendezvous::RoundResult place) {
  Environment inherited = setup_.inherited;
  if (traits_.networked) inherited.emplace_back("MUSTER_LOCAL_ADDR", own_address());
  if (proxy_) {
    place.store_host = "127.0.0.1";
    place.store_port = proxy_->port();
  }
  health_.prepare(inherited, place, stop_file_.folder());
  round_over_.reset();
  RoundRunner::Events events;
  events.over = [this] { round_over_.set(); };
  events.failed = [this](const rendezvous::FailRound& failure) {
    health_.end();
    news_.events().failed(failure);
    coordinator_->tell(failure);
  };
  events.rank_news = [this](const rendezvous::Message& news) { coordinator_->tell(news); };
  if (spec_.tell_worker_ends)
    events.worker_ended = [this](const NodeEvent& event) { news_.events().tell(event); };
  if (spec_.stdin_rank >= 0)
    events.standard_input = [this](int local_rank) {
      return output_.standard_input(local_rank, place_.first_rank);
    };
  runner_.emplace(executor_, spec_, output_.workers(), options_.node.signals, setup_.binding, stop_file_,
                  std::move(events));
  life_.run();
  news_.events().begins(place, *runner_, spec_.workers);
  runner_->start(place, place.restarts, inherited);
  output_.started();
  health_.tell_host();
  if (life_.killed())
    runner_->kill();
  else if (verdict_.round_has_ended())
    runner_->stop(SIGTERM, {stop_reason(verdict_.round_end())});
}

awaitable<NodeSession::Next> NodeSession::leave(const NodeReport& report) {
  life_.leave();
  if (proxy_) proxy_->cut();
  const rendezvous::FailRound& failure = runner_->first_failure();
  rendezvous::Left left;
  try {
    left = co_await coordinator_->leave_round(
        verdict_.leave_round(place_.round, runner_->outcome(), failure, life_.stop_signal()),
        Clock::now() + kLeaveDeadline);
  } catch (const std::exception& error) {
    if (report.outcome != NodeOutcome::succeeded && life_.goes_on() && !verdict_.is_closed())
      fail(std::string("cannot end the round: ") + error.what());
    co_return Next::end;
  }
  if (left.next == rendezvous::NextStep::wait) co_return co_await await_verdict();
  const rendezvous::RoundEnd end = verdict_.end_of_round(left, failure);
  verdict_.note_decision(end, life_.goes_on());
  const bool again = left.next != rendezvous::NextStep::end && life_.goes_on();
  news_.round_ended(end, again);
  co_return again ? Next::join : Next::end;
}

/// All is well here, others still work.
awaitable<NodeSession::Next> NodeSession::await_verdict() {
  verdict_came_.reset();
  while (!verdict_.is_closed() && life_.phase() == NodeLife::waiting && life_.goes_on()) {
    verdict_came_.reset();
    co_await verdict_came_.wait();
  }
  // The others have been told to stop as well: how the job ended is known when they have.
  if (!life_.goes_on() && !verdict_.failed() && !verdict_.is_closed() && !life_.killed()) {
    verdict_came_.reset();
    co_await verdict_came_.wait_for(spec_.shutdown_timeout + kVerdictAfterStop);
  }
  co_return life_.phase() == NodeLife::recalled&& life_.goes_on() ? Next::join : Next::end;
}

NodeLink::Events NodeSession::link_events() {
  NodeLink::Events events;
  events.message = [this](LinkMessage message) { obey(std::move(message)); };
  events.stdin_opened = [this](auto channel) { output_.take_input(std::move(channel)); };
  events.launcher_gone = [this](const std::string& why) {
    output_.give_up();
    fail(why);
  };
  events.coordinator = [this] { return coordinator_ ? &*coordinator_ : nullptr; };
  events.coordinator_works = [this] { return life_.connected() && !coordinator_lost_; };
  return events;
}

void NodeSession::obey(LinkMessage message) {
  using Kind = LinkMessage::Kind;
  switch (message.kind) {
    case Kind::coordinator: {
      LinkEndpoint endpoint = link_endpoint_from_json(message.body);
      spec_.node.coordinator_host = std::move(endpoint.host);
      spec_.node.coordinator_port = endpoint.port;
      coordinator_known_.set();
      break;
    }
    case Kind::stop: {
      const int signal = static_cast<int>(message.number);
      StopOrder order = stop_order_from_json(message.body);
      if (order.reason.empty()) order.reason = signal_name(signal);
      stop(signal, order);
      break;
    }
    case Kind::kill:
      life_.kill();
      stop(SIGTERM, {});
      if (runner_) runner_->kill();
      break;
    case Kind::resize:
      output_.resize();
      if (runner_) runner_->resize();
      break;
    case Kind::signal:
      notices_.launcher_got(static_cast<int>(message.number));
      break;
    case Kind::query:
      answer(message.number, node_query_from_json(message.body));
      break;
    default:
      break;
  }
}

void NodeSession::watch_signals() {
  end_signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    told_to_stop(signal);
    watch_signals();
  });
}

/// Answers somebody who looks at the job, or sends its workers a signal.
void NodeSession::answer(std::int64_t number, const NodeQuery& query) {
  std::vector<int> got;
  if (query.signal != 0 && runner_)
    got = query.notice ? runner_->worker_signals().pass_notice_on(query.signal)
                       : runner_->worker_signals().signal_ranks(query.signal, query.ranks);
  const NodeInspection::Node node{spec_, life_, verdict_, health_, runner_ ? &*runner_ : nullptr};
  inspection_.answer(node, query, got, [this, number](const NodeStatus& status) {
    link_.tell(LinkMessage::Kind::answer, number, to_json_within(status, kNodeStatusMax));
  });
}

/// An order to end, from wherever. Its own grace period, if it has one, is also for what waits for other
/// nodes.
void NodeSession::stop(int signal, const StopOrder& order) {
  spec_.shutdown_timeout = order.grace.value_or(spec_.shutdown_timeout);
  coordinator_known_.set();
  verdict_came_.set();
  health_.end();
  switch (life_.stop(signal)) {
    case StopBy::nothing:
      break;
    case StopBy::hanging_up:
      coordinator_->close();
      break;
    case StopBy::the_workers:
      runner_->stop(signal, order);
      break;
  }
}

/// An order to end from somebody who is not of the job: a stop signal to this process or its guardian. While
/// no worker of this node is in a round, the coordinator would only see that a node is gone, so this node
/// fails, and says why. (Whoever signalled a node that is alone perhaps signalled its launcher, too: it just
/// ends.)
void NodeSession::told_to_stop(int received) {
  const StopSignal told = stop_signal(received);
  if (life_.goes_on()) {
    const std::string text = describe(told, traits_.name);
    verdict_.told_to_stop(text);
    if (traits_.distant_launcher && life_.in_no_round()) return fail(text + kHowToEndAJob);
  }
  stop(told.number, {signal_name(told.number)});
}

/// Something of ours failed: this node's part ends, and the report says why.
void NodeSession::fail(const std::string& text) {
  verdict_.fail(text);
  stop(SIGTERM, {text});
}

rendezvous::ClientEvents NodeSession::client_events() {
  rendezvous::ClientEvents events;
  events.status = [this](const rendezvous::Status& status) { news_.status(status); };
  // The end of the round may follow in the same packet, and calls a node back that waits.
  events.left = [this](const rendezvous::Left& left) {
    if (left.next == rendezvous::NextStep::wait && life_.phase() == NodeLife::leaving) life_.wait();
  };
  events.round_ended = [this](const rendezvous::RoundEnd& end) { on_round_ended(end); };
  events.key_wait = [this](const rendezvous::KeyWait& wait) { health_.key_wait(wait); };
  events.notice = [this](const rendezvous::JobNotice& notice) { health_.notice(notice); };
  events.slow_ranks = [this](const rendezvous::SlowRanks& slow) { health_.slow_ranks(slow); };
  events.job_closed = [this](const rendezvous::JobClosed& closed) { on_job_closed(closed); };
  events.lost = [this](const std::string& reason) { on_lost(reason); };
  events.vouch = [this](const rendezvous::Vouch& question) { coordinator_->tell(voucher_.answer(question)); };
  events.channel_opened = [this](const rendezvous::ChannelOpen&,
                                 const std::shared_ptr<rendezvous::Channel>& channel) {
    if (!link_.go_on_over(channel)) channel->close("this node has no link that could move");
  };
  return events;
}

void NodeSession::on_round_ended(const rendezvous::RoundEnd& end) {
  verdict_.round_ended(end, life_.goes_on());
  health_.end();
  if (life_.has_left()) {
    verdict_.note_decision(end, life_.goes_on());
    if (life_.phase() != NodeLife::waiting) return;
    news_.round_ended(end, end.again);
    if (!end.again) return;
    life_.recall();
    verdict_came_.set();
    return;
  }
  // While join() returns, its place is known but no worker runs: start_workers() asks whether the round has
  // ended.
  if (runner_ && place_.round == end.round) runner_->stop(stop_signal_of(end), {stop_reason(end)});
}

void NodeSession::on_job_closed(const rendezvous::JobClosed& closed) {
  verdict_.job_closed(closed, life_.goes_on());
  health_.end();
  verdict_came_.set();
  if (runner_ && !life_.has_left()) runner_->stop(SIGTERM, {closed.reason});
}

void NodeSession::on_lost(const std::string& reason) {
  coordinator_lost_ = true;
  // Before the first answer connect() says what is wrong.
  if (verdict_.is_closed() || !life_.connected()) return;
  fail(traits_.networked ? "node " + traits_.name + " lost the coordinator (" + dial_.where() + "): " + reason
                         : "the store process was lost: " + reason);
}

}  // namespace muster::agent
